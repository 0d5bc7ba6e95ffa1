// Asks Python for a picture when a knob is let go. One question at a time is on its way; newer ones replace
// each other while it is.

function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function inputFor(knob, value) {
  if (knob.kind === "slide")
    return make("input", { type: "range", min: knob.low, max: knob.high, step: knob.step, value });
  if (knob.kind === "switch") return make("input", { type: "checkbox", checked: value });
  const places = knob.options.map((option, i) => make("option", { value: i, textContent: option }));
  const made = make("select", {}, ...places);
  made.selectedIndex = knob.options.indexOf(value);
  return made;
}

function valueOf(knob, input) {
  if (knob.kind === "slide") return Number(input.value);
  return knob.kind === "switch" ? input.checked : knob.options[input.selectedIndex];
}

function inWords(knob, value) {
  return knob.kind === "slide" ? `${value.toLocaleString("en")} ${knob.unit}`.trim() : "";
}

function render({ model, el: root }) {
  const knobs = model.get("knobs"), inputs = {}, outputs = {};
  const controls = make("div", { className: "mvw-controls" });
  const picture = make("div", { className: "mvw-picture" });
  const error = make("div", { className: "mvw-error" }), heard = make("div", { className: "mvw-heard" });
  error.setAttribute("role", "alert");
  heard.setAttribute("aria-live", "polite");
  const twin = make("pre"), summary = make("summary", { textContent: "In words" });
  root.classList.add("mvw");
  root.replaceChildren(controls, picture, error, heard, make("details", {}, summary, twin));
  // The picture that stands behind a widget in a saved notebook is not needed while the widget runs.
  root.append(make("style", { textContent: `[data-place="${model.get("place") ?? ""}"] { display: none; }` }));
  let newest = model.get("question").ticket, onItsWay = null, held = null;

  const values = () => Object.fromEntries(knobs.map((knob) => [knob.name, valueOf(knob, inputs[knob.name])]));
  function tell(knob) {
    const words = inWords(knob, valueOf(knob, inputs[knob.name]));
    outputs[knob.name].textContent = words;
    if (words) inputs[knob.name].setAttribute("aria-valuetext", words);
  }
  function ask() {
    newest += 1;
    held = { ticket: newest, values: values() };
    root.classList.add("mvw-busy");
    root.dataset.ticket = newest;
    send();
  }
  function send() {
    if (onItsWay !== null || held === null) return;
    onItsWay = held.ticket;
    model.set("question", held);
    held = null;
    model.save_changes();
  }
  function show() {
    const answer = model.get("answer");
    if (answer.ticket < onItsWay) return;
    onItsWay = null;
    root.classList.toggle("mvw-busy", held !== null);
    root.dataset.answered = answer.ticket;
    error.textContent = answer.error ?? "";
    if (!answer.error) {
      picture.innerHTML = answer.svg;
      heard.textContent = answer.sentence;
      twin.textContent = answer.twin;
    }
    send();
  }
  function take() {
    const question = model.get("question");
    if (question.ticket <= newest) return;
    newest = onItsWay = question.ticket;
    held = null;
    for (const knob of knobs) {
      const input = inputs[knob.name], value = question.values[knob.name];
      if (knob.kind === "slide") input.value = value;
      else if (knob.kind === "switch") input.checked = value;
      else input.selectedIndex = knob.options.indexOf(value);
      tell(knob);
    }
  }

  for (const knob of knobs) {
    const input = (inputs[knob.name] = inputFor(knob, model.get("question").values[knob.name]));
    outputs[knob.name] = make("output");
    input.setAttribute("aria-label", knob.label);
    input.dataset.knob = knob.name;
    input.oninput = () => tell(knob);
    input.onchange = ask;
    controls.append(make("span", { textContent: knob.label }), input, outputs[knob.name]);
    tell(knob);
  }
  for (const part of root.querySelectorAll("input, select, summary")) part.dataset.lmSuppressShortcuts = "true";
  show();
  model.on("change:answer", show);
  model.on("change:question", take);
  return () => {
    model.off("change:answer", show);
    model.off("change:question", take);
  };
}

export default { render };
