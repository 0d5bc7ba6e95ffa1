// Requests a picture from Python when a knob is released. One request at a time is pending; meanwhile a newer
// one replaces an older one.

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

function valueText(knob, value) {
  return knob.kind === "slide" ? `${value.toLocaleString("en")} ${knob.unit}`.trim() : "";
}

function render({ model, el: root }) {
  const knobs = model.get("knobs"), inputs = {}, outputs = {};
  const controls = make("div", { className: "mvw-controls" });
  const picture = make("div", { className: "mvw-picture" });
  const error = make("div", { className: "mvw-error" }), spoken = make("div", { className: "mvw-spoken" });
  error.setAttribute("role", "alert");
  spoken.setAttribute("aria-live", "polite");
  const text = make("pre"), summary = make("summary", { textContent: "As text" });
  root.classList.add("mvw");
  root.replaceChildren(controls, picture, error, spoken, make("details", {}, summary, text));
  // The picture saved behind a widget in a notebook is hidden while the widget runs.
  root.append(make("style", { textContent: `[data-place="${model.get("place") ?? ""}"] { display: none; }` }));
  let newest = model.get("question").ticket, pending = null, next = null;

  const values = () => Object.fromEntries(knobs.map((knob) => [knob.name, valueOf(knob, inputs[knob.name])]));
  function showValue(knob) {
    const text = valueText(knob, valueOf(knob, inputs[knob.name]));
    outputs[knob.name].textContent = text;
    if (text) inputs[knob.name].setAttribute("aria-valuetext", text);
  }
  function ask() {
    newest += 1;
    next = { ticket: newest, values: values() };
    root.classList.add("mvw-busy");
    root.dataset.ticket = newest;
    send();
  }
  function send() {
    if (pending !== null || next === null) return;
    pending = next.ticket;
    model.set("question", next);
    next = null;
    model.save_changes();
  }
  function show() {
    const answer = model.get("answer");
    if (answer.ticket < pending) return;
    pending = null;
    root.classList.toggle("mvw-busy", next !== null);
    root.dataset.answered = answer.ticket;
    error.textContent = answer.error ?? "";
    if (!answer.error) {
      picture.innerHTML = answer.svg;
      spoken.textContent = answer.sentence;
      text.textContent = answer.text_alternative;
    }
    send();
  }
  function take() {
    const question = model.get("question");
    if (question.ticket <= newest) return;
    newest = pending = question.ticket;
    next = null;
    for (const knob of knobs) {
      const input = inputs[knob.name], value = question.values[knob.name];
      if (knob.kind === "slide") input.value = value;
      else if (knob.kind === "switch") input.checked = value;
      else input.selectedIndex = knob.options.indexOf(value);
      showValue(knob);
    }
  }

  for (const knob of knobs) {
    const input = (inputs[knob.name] = inputFor(knob, model.get("question").values[knob.name]));
    outputs[knob.name] = make("output");
    input.setAttribute("aria-label", knob.label);
    input.dataset.knob = knob.name;
    input.oninput = () => showValue(knob);
    input.onchange = ask;
    controls.append(make("span", { textContent: knob.label }), input, outputs[knob.name]);
    showValue(knob);
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
