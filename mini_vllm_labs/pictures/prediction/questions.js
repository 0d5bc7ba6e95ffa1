// Questions, their inputs and their verdicts.

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
  const result = outcome(question, said, truth), isNumber = question.kind === "number";
  if (result === "none") return "The run did not show it.";
  const quoted = (answer, unit) => (isNumber ? inWords({ ...question, unit }, answer) : `“${inWords(question, answer)}”`);
  const place = isNumber && question.subject === "in which step" ? "step " : "";
  const was = isNumber ? `it was ${place}${quoted(truth, question.unit)}` : `${quoted(truth)} is the answer`;
  if (result === "open") return `${was[0].toUpperCase()}${was.slice(1)}.`;
  const own = `You said ${quoted(said, "")}`;
  if (result === "wrong") return `${own}, but ${was}.`;
  return isNumber && said !== truth ? `${own}: right, ${was}.` : `${own}: right.`;
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
  form.onkeydown = (event) => {
    if (event.key !== "Enter" || !event.target.matches("input")) return;
    event.preventDefault();
    event.stopPropagation();
    form.requestSubmit();
  };
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
