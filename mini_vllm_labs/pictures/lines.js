// The lines of the phases: which one decided what is followed, and which steps ran the line that is clicked.

const ROWS = { allocated: "was handed out", hit: "was found in the prefix cache", freed: "was given back",
  admitted: "was admitted", preempted: "was preempted", finished: "was finished",
  refused: "was refused", passed: "was not reached: the step ended" };

function linesPart(goTo) {
  const said = make("div", { className: "mvw-said" }), steps = make("div", { className: "mvw-said" });
  const source = make("div", { className: "mvw-source", tabIndex: 0 });
  const root = make("details", { className: "mvw-lines", hidden: true },
    make("summary", { textContent: "Lines of code" }), said, source, steps);
  let lines = null, file = -1, chosen = 0, decided = 0, step = 0, followed = "", event = null;
  source.setAttribute("role", "group");
  source.setAttribute("aria-label", "source: choose a line");
  function quiet() { // what takes the focus keeps its keys from the notebook
    for (const part of root.querySelectorAll("button, a, summary, [tabindex]")) part.dataset.lmSuppressShortcuts = "true";
  }

  function link([number, line]) {
    const path = lines.files[number][0], base = location.pathname.match(/^(.*?)\/(?:lab|notebooks|tree)\b/);
    const made = button(`${path}:${line}`, "show this line", () => open(number, line));
    if (!base) return [made];
    return [made, make("a", { textContent: "open the file", target: "_blank", href: `${base[1]}/lab/tree/${path}` })];
  }
  function open(number, line) {
    if (number !== file) {
      file = number;
      source.replaceChildren(...lines.files[file][1].map((text, i) => {
        const row = make("span", { textContent: `${String(i + 1).padStart(4)}  ${text}\n` });
        row.onclick = () => choose(i + 1);
        return row;
      }));
    }
    decided = line;
    choose(line);
    const row = source.children[line - 1];
    source.scrollTop = row.offsetTop - source.offsetTop - source.clientHeight / 3;
  }
  function choose(line) {
    chosen = Math.max(1, Math.min(source.children.length, line));
    const ran = lines.steps[file][chosen] ?? [];
    steps.replaceChildren(`Line ${chosen} ran in ${ran.length} steps${ran.length ? ": " : "."}`, ...ran.map((one) => {
      const made = button(String(one), `go to step ${one}`, () => goTo(one));
      if (one === step) made.setAttribute("aria-current", "step");
      return made;
    }));
    quiet();
    paint();
  }
  function paint() {
    for (const [i, row] of [...source.children].entries()) {
      row.className = lines.steps[file][i + 1]?.includes(step) ? "mvw-ran" : "";
      row.classList.toggle("mvw-decided", i + 1 === decided);
      row.classList.toggle("mvw-chosen", i + 1 === chosen);
    }
  }
  source.onkeydown = (pressed) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[pressed.key];
    if (!by || file < 0) return;
    choose(chosen + by);
    source.children[chosen - 1].scrollIntoView({ block: "nearest" });
    pressed.preventDefault();
    pressed.stopPropagation();
  };
  return {
    root,
    load(film) {
      lines = film.lines ?? null;
      root.hidden = !lines;
      file = -1;
      decided = 0;
      if (lines?.files.length) open(0, 1);
      said.textContent = "Click a block or a request in the picture: the line that decided it opens. Click a line: the steps that ran it.";
    },
    show(key, name, now) {
      if (!lines || file < 0) return;
      step = now;
      choose(chosen);
      if (!key) followed = "";
      if (!key) return;
      const found = lines.events[key]?.findLast(([at]) => at <= step);
      if (!found) return said.replaceChildren(`${name}: no line has decided anything about it yet.`);
      const [at, what, [first, ...callers]] = found;
      root.open = true;
      said.replaceChildren(`${name} ${ROWS[what]} in step ${at}: `, ...link(first),
        ...(callers.length ? [" called from ", ...callers.flatMap((place) => link(place).slice(0, 1))] : []));
      quiet();
      const isNew = key !== followed || (event !== found && chosen === decided); // a line that was chosen stays
      [followed, event] = [key, found];
      if (isNew) open(...first);
    },
  };
}
