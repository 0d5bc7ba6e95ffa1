// The veil over a run, and the score. The widgets of a page tell each other through its board.

const board = (globalThis.predictionBoard ??= { groups: {}, watchers: new Set() });

function publish(group, news) {
  board.groups[group] = { ...board.groups[group], ...news };
  for (const watcher of [...board.watchers]) watcher(group);
}

function watch(watcher) {
  board.watchers.add(watcher);
  return () => board.watchers.delete(watcher);
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

// Where a film shows what each question is about: a step, and the request that is the answer or is named last. A question
// such as "And how many does B compute?" is about the step of the one before it.
function marksOf(questions, truths, { follow, word, length }) {
  const keys = Object.fromEntries(follow.map(([key, name]) => [name.replace("request ", ""), key]));
  let step = -1;
  return truths.map((truth, i) => {
    const { text, subject } = questions[i], found = text.match(/\bstep (\d+)/i), isWhen = subject === "in which step";
    if (isWhen || found) step = isWhen ? truth ?? -1 : Number(found[1]);
    if (found && word !== "step") return {}; // the pictures are rows of one step
    const name = [...text.match(/\w+/g), truth].findLast((each) => Object.hasOwn(keys, each));
    const isThere = word === "step" && step >= 0 && step < length && (isWhen || found || name !== undefined);
    const words = [...(isThere ? [`step ${step}`] : []), ...(name === undefined ? [] : [name])].join(", ");
    return { words, follow: keys[name], ...(isThere ? { step } : {}) };
  });
}

// The veil over the other outputs of its cell: it lifts when the questions of its group are answered.
function reveal(model, root) {
  const group = model.get("group"), truths = model.get("truths"), questions = model.get("questions"), marks = marksOf(questions, truths, model.get("film"));
  let opened = false;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Prediction and run");
  // A button that marks in the player below what a question is about.
  function pointer(mark) {
    if (!mark?.words) return [];
    const button = make("button", { type: "button", className: "mvq-show", textContent: `show ${mark.words}` });
    button.onclick = () => {
      const widgets = [...document.querySelectorAll(".mvw")].filter((each) => each === root || each.offsetParent);
      widgets[widgets.indexOf(root) + 1]?.dispatchEvent(new CustomEvent("mvw-show", { detail: mark }));
    };
    return [button];
  }
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
        return make("li", { className: `mvq-is-${result}` }, marked(result), make("span", { textContent: question.text }), words, ...pointer(marks[i]));
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
