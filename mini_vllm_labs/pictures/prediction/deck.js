// Cards, one at a time: a claim, a question, and after the answer the run.
let players;

// A player of a film; its module is imported when the first one is shown.
function playing({ film, step }) {
  const host = make("div");
  players ??= import(URL.createObjectURL(new Blob([PLAYER], { type: "text/javascript" })));
  players.then(({ alone }) => alone(host, { film, step, follow: "", speed: 1, scale: "steps", place: "" }, ""));
  return host;
}

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
      if (result(card) === "open") dot.textContent = "○";
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
    const pictures = card.pictures.map((svg) => make("div", { className: "mvq-drawn", innerHTML: svg }));
    const names = (each) => (card.films.length > 1 ? [make("h4", { textContent: each.name })] : []);
    const films = card.films.map((each) => make("div", {}, ...names(each), playing(each)));
    const text = make("details", {}, make("summary", { textContent: "The run as text" }), make("pre", { textContent: card.text }));
    const next = make("button", { type: "button", textContent: "Next card", onclick: () => go(place + 1) });
    return [head, ...pictures, make("div", { className: "mvq-films" }, ...films), make("p", { textContent: card.why }), ...(card.text ? [text] : []), next];
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
