// Questions that lock, the veil over a run, the score. The widgets of a page tell each other through its board.

const board = (globalThis.predictionBoard ??= { groups: {}, watchers: new Set() });

function publish(group, news) {
  board.groups[group] = { ...board.groups[group], ...news };
  for (const watcher of [...board.watchers]) watcher(group);
}

function watch(watcher) {
  board.watchers.add(watcher);
  return () => board.watchers.delete(watcher);
}

function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function inWords(question, answer) {
  if (question.kind !== "number") return Array.isArray(answer) ? answer.join(", ") : answer;
  const digits = Number.isInteger(answer) ? {} : { maximumSignificantDigits: 3 };
  const unit = answer === 1 ? question.unit.replace(/s$/, "") : question.unit;
  return `${answer.toLocaleString("en", digits)} ${unit}`.trim();
}

function isRight(question, said, truth) {
  if (question.kind === "choice") return said === truth;
  if (question.kind === "several") return [...said].sort().join("\n") === [...truth].sort().join("\n");
  if (said === truth) return true;
  return said * truth > 0 && Math.max(said / truth, truth / said) <= question.factor;
}

function outcome(question, said, truth) {
  if (truth === null || truth === undefined) return "none";
  return said === null || said === undefined ? "open" : isRight(question, said, truth) ? "right" : "wrong";
}

const MARKS = { right: "✓", wrong: "✗", open: "·", none: "?" };
const marked = (result) => make("span", { className: `mvq-mark mvq-${result}`, ariaHidden: "true", textContent: MARKS[result] });

function verdict(question, said, truth) {
  const result = outcome(question, said, truth);
  if (result === "none") return "the run did not show it";
  if (result === "open") return `it was ${inWords(question, truth)}`;
  const own = `you said ${inWords({ ...question, unit: "" }, said)}`, was = `it was ${inWords(question, truth)}`;
  if (result === "wrong") return `${own}, ${was}`;
  return said === truth || question.kind === "several" ? `${own}: right` : `${own}: right, ${was}`;
}

let numberOfNames = 0;

// The inputs of one question: an element, and what is said in it (null while nothing is).
function inputsFor(question) {
  if (question.kind === "number") {
    const input = make("input", { type: "number", step: "any", inputMode: "decimal", autocomplete: "off" });
    const label = make("label", { className: "mvq-question" }, make("span", { textContent: question.text }), input);
    if (question.unit) label.append(make("span", { className: "mvq-unit", textContent: question.unit }));
    return { element: label, first: input, said: () => (input.value.trim() === "" ? null : Number(input.value)) };
  }
  const type = question.kind === "choice" ? "radio" : "checkbox", name = `mvq-${(numberOfNames += 1)}-${Math.random()}`;
  const inputs = question.options.map((value) => make("input", { type, name, value }));
  const labels = inputs.map((input, i) => make("label", {}, input, make("span", { textContent: question.options[i] })));
  const legend = make("legend", { textContent: question.text });
  const element = make("fieldset", { className: "mvq-question" }, legend, make("div", { className: "mvq-options" }, ...labels));
  const chosen = () => inputs.filter((input) => input.checked).map((input) => input.value);
  const said = () => (chosen().length === 0 ? null : question.kind === "choice" ? chosen()[0] : chosen());
  return { element, first: inputs[0], said };
}

// A form that locks once every question has an answer, and then hands the answers to `lock`.
function formFor(questions, lock) {
  const all = questions.map(inputsFor);
  const hint = make("span", { className: "mvq-hint" });
  hint.setAttribute("role", "status");
  const submit = make("button", { type: "submit", textContent: questions.length > 1 ? "Lock my answers" : "Lock my answer" });
  const form = make("form", { noValidate: true }, ...all.map((each) => each.element), make("div", { className: "mvq-foot" }, submit, hint));
  form.onsubmit = (event) => {
    event.preventDefault();
    const said = all.map((each) => each.said()), open = said.indexOf(null);
    if (open < 0) return lock(said);
    hint.textContent = said.length > 1 ? `${said.filter((each) => each !== null).length} of ${said.length} answered` : "Enter an answer first";
    all[open].first.focus();
  };
  return form;
}

function quiet(root) {
  for (const part of root.querySelectorAll("button, input, select, summary")) part.dataset.lmSuppressShortcuts = "true";
}

// The questions of one prediction.
function ask(model, root) {
  const group = model.get("group"), questions = model.get("questions");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Prediction");
  function show() {
    const answers = model.get("answers"), head = make("div", { className: "mvq-head", textContent: "Your prediction" });
    if (!answers.length) {
      root.replaceChildren(head, formFor(questions, lock));
    } else {
      const rows = questions.map((question, i) => make("li", {}, make("span", { textContent: question.text }), make("b", { textContent: inWords(question, answers[i]) })));
      const note = make("p", { className: "mvq-note", tabIndex: -1, textContent: "Locked. The run below shows what happened." });
      root.replaceChildren(head, make("ul", { className: "mvq-said" }, ...rows), note);
    }
    quiet(root);
    publish(group, { questions, answers });
  }
  function lock(answers) {
    model.set("answers", answers);
    model.save_changes();
    if (!root.querySelector(".mvq-note")) show();
    root.querySelector(".mvq-note").focus();
  }
  const unwatch = watch((changed) => {
    if (changed !== group || board.groups[group].answers.length || !model.get("answers").length) return;
    model.set("answers", []);
    model.save_changes();
    show();
  });
  model.on("change:answers", show);
  show();
  return () => { unwatch(); model.off("change:answers", show); };
}

// The veil over the other outputs of its cell: it lifts when the questions of its group are answered.
function reveal(model, root) {
  const group = model.get("group"), truths = model.get("truths"), questions = model.get("questions");
  let opened = false;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Prediction and run");
  function show(changed = group) {
    if (changed !== group) return;
    const answers = board.groups[group].answers, answered = answers.length > 0, open = answered || opened;
    root.dataset.veil = open ? "open" : "closed";
    if (!open) {
      const button = make("button", { type: "button", textContent: "Show the run without an answer" });
      button.onclick = () => { opened = true; show(); root.querySelector("ul").focus(); };
      const words = make("p", { textContent: "The run is folded. It opens when you have locked your prediction above." });
      root.replaceChildren(words, button);
    } else {
      const rows = questions.slice(0, truths.length).map((question, i) => {
        const result = outcome(question, answers[i], truths[i]);
        const words = make("b", { textContent: verdict(question, answers[i], truths[i]) });
        return make("li", { className: `mvq-is-${result}` }, marked(result), make("span", { textContent: question.text }), words);
      });
      root.replaceChildren(make("ul", { className: "mvq-verdicts", tabIndex: -1 }, ...rows));
    }
    root.hidden = open && !truths.length;
    quiet(root);
  }
  const unwatch = watch(show);
  publish(group, { questions, ...(truths.length ? { truths } : {}), answers: board.groups[group]?.answers ?? model.get("answers") });
  return unwatch;
}

function counted(parts) {
  const right = parts.filter((part) => part === "right").length;
  return `${right} of ${parts.filter((part) => part !== "none").length}`;
}

// Dots and words: how many are right of each subject.
function table(subjects) {
  const rows = Object.entries(subjects).map(([subject, parts]) =>
    make("li", {}, make("span", { textContent: subject }), make("span", { className: "mvq-dots", ariaHidden: "true" }, ...parts.map(marked)),
      make("b", { textContent: counted(parts) })));
  return make("ul", { className: "mvq-score" }, ...rows);
}

function bySubject(pairs) {
  const subjects = {};
  for (const [subject, result] of pairs) (subjects[subject] ??= []).push(result);
  return subjects;
}

// The score of all predictions of a notebook, by subject.
function score(model, root) {
  const groups = model.get("groups");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Your score");
  function show() {
    const pairs = groups.flatMap(({ group }) => {
      const { questions, answers, truths } = board.groups[group];
      return questions.map((question, i) => [question.subject, truths ? outcome(question, answers[i], truths[i]) : "none"]);
    });
    const results = pairs.map(([, result]) => result), open = results.filter((result) => result === "open").length;
    const words = [`${counted(results)} predictions right`, ...(open ? [`${open} not answered`] : [])].join(", ");
    const again = make("button", { type: "button", textContent: "Forget my answers" });
    again.onclick = () => { for (const { group } of groups) publish(group, { answers: [] }); root.querySelector("p").focus(); };
    root.replaceChildren(make("p", { className: "mvq-total", tabIndex: -1, textContent: words }), table(bySubject(pairs)), again);
    quiet(root);
  }
  for (const { group, ...known } of groups) board.groups[group] = { ...known, ...board.groups[group] };
  show();
  return watch(show);
}

// Cards, one at a time: a claim, a question, and after the answer the run.
function deck(model, root) {
  const cards = model.get("cards");
  let place = Math.max(0, cards.findIndex((card) => !(card.title in model.get("answers"))));
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Cards");
  const said = (card) => model.get("answers")[card.title];
  const result = (card) => outcome(card.question, said(card), card.truth);
  function save(answers) {
    model.set("answers", answers);
    model.save_changes();
    show();
  }
  function go(to, name = "h3") {
    place = (to + cards.length) % cards.length;
    show();
    root.querySelector(name).focus();
  }
  function bar() {
    const jump = make("select", {}, ...cards.map((card, i) => make("option", { value: i, textContent: `${i + 1} ${MARKS[result(card)]} ${card.title}` })));
    jump.setAttribute("aria-label", "card");
    jump.selectedIndex = place;
    jump.onchange = () => go(jump.selectedIndex, "select");
    const button = (words, label, by) => {
      const made = make("button", { type: "button", textContent: words, onclick: () => go(place + by, `[aria-label="${label}"]`) });
      made.setAttribute("aria-label", label);
      return made;
    };
    const dots = cards.map((card, i) => {
      const dot = marked(result(card));
      dot.classList.toggle("mvq-here", i === place);
      dot.onclick = () => go(i);
      return dot;
    });
    return make("div", { className: "mvw-bar" }, button("◀", "previous card", -1), jump, button("▶", "next card", 1),
      make("span", { className: "mvq-dots mvq-cards", ariaHidden: "true" }, ...dots));
  }
  function answered(card) {
    const head = make("p", { className: `mvq-verdict mvq-is-${result(card)}`, tabIndex: -1 }, marked(result(card)),
      make("b", { textContent: verdict(card.question, said(card), card.truth) }));
    const pictures = card.pictures.map((svg) => make("div", { className: "mvw-picture", innerHTML: svg }));
    const text = make("details", {}, make("summary", { textContent: "As text" }), make("pre", { textContent: card.text }));
    const next = make("button", { type: "button", textContent: "Next card", onclick: () => go(place + 1) });
    return [head, ...pictures, make("p", { textContent: card.why }), text, next];
  }
  function show() {
    const card = cards[place], form = () => formFor([card.question], ([answer]) => {
      save({ ...model.get("answers"), [card.title]: answer });
      root.querySelector(".mvq-verdict").focus();
    });
    const all = cards.map((each) => [each.question.subject, result(each)]), results = all.map(([, each]) => each);
    const open = results.filter((each) => each === "open").length;
    const body = make("section", { className: "mvq-card" },
      make("h3", { tabIndex: -1, textContent: `${place + 1}. ${card.title}` }), make("blockquote", { textContent: card.claim }),
      make("p", { textContent: card.setup }), ...(said(card) === undefined ? [form()] : answered(card)));
    const total = make("p", { className: "mvq-total", textContent: `${counted(results)} right, ${open} to go` });
    total.setAttribute("role", "status");
    const again = make("button", { type: "button", textContent: "Forget my answers", onclick: () => { place = 0; save({}); root.querySelector("h3").focus(); } });
    root.replaceChildren(bar(), body, total, table(bySubject(all)), again);
    quiet(root);
  }
  model.on("change:answers", show);
  show();
  return () => model.off("change:answers", show);
}

function render({ model, el: root }) {
  const place = model.get("place");
  root.classList.add("mvw", "mvq");
  root.dataset.live = place;
  // What is saved behind the widget in a notebook is empty and hidden while the widget runs.
  document.head.append(make("style", { textContent: `[data-place="${place}"] { display: none; }` }));
  for (const still of document.querySelectorAll(`[data-place="${place}"]`)) still.replaceChildren();
  return { ask, reveal, score, deck }[model.get("role")](model, root);
}

export default { render };
