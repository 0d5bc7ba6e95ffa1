// Knobs over a picture. It is asked for while a knob moves: one question is pending, meanwhile the newest waits.
// Python draws, or this page with `source`. An answer may have more: a film comes when the knob rests.

const PATIENCE = 1000, REST = 200, GRID = 20, MIN_WIDTH = 460, MAX_WIDTH = 1080, BESIDE = 960;
const WAITING = "Waiting for the kernel ...";
const GONE = "The kernel was restarted or has stopped: run this cell again.";

const load = (source) => import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));

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

function valueText(knob, value, unit = knob.unit) {
  if (knob.kind !== "slide") return "";
  return value === 0 && knob.at_zero ? knob.at_zero : `${value.toLocaleString("en")} ${unit}`.trim();
}

function tile([name, was, now]) {
  const changed = was !== now;
  const figure = make("b", { textContent: changed ? `${was} → ${now}` : now });
  const about = make("span", { textContent: name });
  return make("div", { className: changed ? "mvw-tile mvw-turned" : "mvw-tile" }, figure, about);
}

function render({ model, el: root }) {
  const knobs = model.get("knobs"), inputs = {}, outputs = {};
  const controls = make("div", { className: "mvw-controls" });
  const tiles = make("div", { className: "mvw-tiles" });
  const picture = make("div", { className: "mvw-picture" }), film = make("div", { hidden: true });
  const error = make("div", { className: "mvw-error" }), spoken = make("div", { className: "mvw-spoken" });
  const waiting = make("div", { className: "mvw-waiting" });
  error.setAttribute("role", "alert");
  waiting.setAttribute("role", "status");
  spoken.setAttribute("aria-live", "polite");
  const text = make("pre"), about = make("details", {}, make("summary", { textContent: "As text" }), text);
  root.classList.add("mvw");
  root.dataset.ticket = model.get("question").ticket;
  root.replaceChildren(controls, error, waiting, tiles, picture, film, spoken, about);
  // The picture saved behind a widget in a notebook is hidden while the widget runs.
  root.append(make("style", { textContent: `[data-place="${model.get("place") ?? ""}"] { display: none; }` }));
  let newest = model.get("question").ticket, pending = null, next = null, late = Infinity, timer, rest, speech;
  let width = model.get("answer").width, draw = null, endPlayer = null;
  let before = null, settled = { ...model.get("question").values }, isTurning = false;

  const values = () => Object.fromEntries(knobs.map((knob) => [knob.name, valueOf(knob, inputs[knob.name])]));
  function showValue(knob) {
    const value = valueOf(knob, inputs[knob.name]), words = valueText(knob, value);
    outputs[knob.name].textContent = valueText(knob, value, knob.unit?.length < 3 ? knob.unit : "");
    if (words) inputs[knob.name].setAttribute("aria-valuetext", words);
  }
  function ask({ patience = PATIENCE, whole = false } = {}) {
    clearTimeout(rest);
    newest += 1;
    root.dataset.ticket = newest;
    const shown = film.querySelector(".mvw-picture svg")?.viewBox.baseVal.width ?? width;
    next = { ticket: newest, values: values(), before, width: shown, whole };
    if (draw) return showAnswer(draw(next, model.get("tables")));
    late = Math.min(late, performance.now() + patience);
    send();
  }
  function send() {
    if (next === null || pending !== null) return;
    pending = next.ticket;
    model.set("question", next);
    next = null;
    model.save_changes();
    timer ??= setInterval(explain, PATIENCE / 4);
  }
  function explain() {
    const status = model.widget_manager?.kernel?.status, overdue = pending !== null && performance.now() > late;
    const gone = root.closest(".jupyter-widgets-disconnected") || (overdue && !["busy", undefined].includes(status));
    waiting.textContent = gone ? GONE : overdue ? WAITING : "";
    root.classList.toggle("mvw-busy", waiting.textContent !== "");
    if (pending === null) timer = clearInterval(timer);
  }
  function show() {
    const answer = model.get("answer");
    if (draw || (pending !== null && answer.ticket !== pending)) return;
    pending = null;
    late = next === null ? Infinity : performance.now() + PATIENCE;
    explain();
    showAnswer(answer);
    send();
    if (pending === null && answer.has_more) rest = setTimeout(() => ask({ whole: true }), REST);
  }
  function showAnswer(answer) {
    root.dataset.answered = answer.ticket;
    error.textContent = answer.error ?? "";
    if (answer.error) return;
    const { comparison = [] } = answer;
    tiles.replaceChildren(...comparison.map(tile));
    if (comparison.length) tiles.append(make("p", { textContent: answer.sentence }));
    clearTimeout(speech);
    speech = setTimeout(() => { spoken.textContent = answer.sentence; }, REST);
    text.textContent = answer.text_alternative;
    if (answer.svg) (film.querySelector(".mvw-picture") ?? picture).innerHTML = answer.svg;
  }
  function take() {
    const question = model.get("question");
    if (question.ticket <= newest) return;
    newest = pending = question.ticket;
    next = null;
    settled = question.values;
    before = question.before;
    for (const knob of knobs) {
      const input = inputs[knob.name], value = question.values[knob.name];
      if (knob.kind === "slide") input.value = value;
      else if (knob.kind === "switch") input.checked = value;
      else input.selectedIndex = knob.options.indexOf(value);
      showValue(knob);
    }
    if (draw) ask();
  }
  function turn(knob) {
    if (!isTurning) before = settled;
    isTurning = true;
    showValue(knob);
    ask();
  }
  function release() {
    isTurning = false;
    settled = values();
    if (draw) { model.set("question", next); model.save_changes(); }
  }
  function fit() {
    root.classList.toggle("mvw-wide", Boolean(model.get("player")) && root.clientWidth >= BESIDE);
    const room = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, GRID * Math.floor(root.clientWidth / GRID)));
    if (!model.get("reflows") || !root.clientWidth || room === width) return;
    width = room;
    if (draw || !model.get("source")) ask({ patience: Infinity });
  }

  for (const knob of knobs) {
    const input = (inputs[knob.name] = inputFor(knob, model.get("question").values[knob.name]));
    outputs[knob.name] = make("output");
    input.setAttribute("aria-label", knob.label);
    input.dataset.knob = knob.name;
    input.oninput = () => turn(knob);
    controls.append(make("label", { className: `mvw-knob mvw-${knob.kind}` },
      make("span", { textContent: knob.label }), outputs[knob.name], input));
    showValue(knob);
  }
  // An element with `data-drag` is a knob too: its right edge is the knob's value, `data-per` of the drawing's px a unit.
  let dragged = null;
  picture.onpointerdown = (event) => {
    dragged = event.target.closest("[data-drag]")?.dataset.drag;
    if (dragged) picture.setPointerCapture(event.pointerId);
  };
  picture.onpointermove = ({ clientX }) => {
    const grip = dragged && picture.querySelector(`[data-drag="${dragged}"]`);
    if (!grip) return;
    const drawn = grip.ownerSVGElement, px = drawn.getBoundingClientRect().width / drawn.viewBox.baseVal.width;
    inputs[dragged].value = Math.round((clientX - grip.getBoundingClientRect().left) / (Number(grip.dataset.per) * px));
    turn(knobs.find(({ name }) => name === dragged));
  };
  picture.onpointerup = picture.onpointercancel = () => {
    if (dragged) release();
    dragged = null;
  };
  if (!model.get("player"))
    controls.append(make("div", { className: "mvw-options" }, ...lectureTools(root, () => picture.querySelector("svg"))));
  for (const part of root.querySelectorAll("input, button, select, summary")) part.dataset.lmSuppressShortcuts = "true";
  controls.onchange = release;
  show();
  if (model.get("source"))
    load(model.get("source")).then((found) => {
      draw = found.draw;
      ask();
    });
  if (model.get("player"))
    load(model.get("player")).then((found) => {
      endPlayer = found.default.render({ model, el: film });
      film.hidden = false;
      about.hidden = true;
      picture.remove();
    });
  const listeners = { "change:answer": show, "change:question": take, comm_live_update: explain };
  for (const [name, listener] of Object.entries(listeners)) model.on(name, listener);
  const watched = new ResizeObserver(fit);
  watched.observe(root);
  return () => {
    clearInterval(timer);
    for (const waiting of [rest, speech]) clearTimeout(waiting);
    watched.disconnect();
    endPlayer?.();
    for (const [name, listener] of Object.entries(listeners)) model.off(name, listener);
  };
}

export default { render };
