// The figures above the picture.

import { make } from "./shared.js";

const number = (value) => value.toLocaleString("en");
const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");

function tilesOf(figures, facts) {
  const tiles = [
    ["step", number(figures.step), ""],
    ["running", number(figures.running), `of ${number(facts.most_running)}`, figures.running / facts.most_running],
    ["waiting", number(figures.waiting), `${number(figures.ended)} ended`],
    ["blocks held", number(figures.blocks), `of ${number(facts.num_blocks)}`, figures.blocks / facts.num_blocks],
    ["prefix hits", percent(figures.hit_tokens, figures.query_tokens), "so far"],
    ["preemptions", number(figures.preemptions), "so far"],
  ];
  if (facts.num_drafts) {
    tiles.push(["drafts accepted", percent(figures.accepted, figures.drafts), "so far"]);
  }
  return tiles;
}

export function showFigures(root, figures, facts) {
  const tiles = tilesOf(figures, facts);
  if (root.children.length !== tiles.length) {
    root.replaceChildren(...tiles.map(([name]) => {
      const made = make("div", {}, make("dt", { textContent: name }),
        make("dd", {}, make("b"), make("span")));
      made.dataset.figure = name;
      return made;
    }));
  }
  tiles.forEach(([, value, more, share], place) => {
    const tile = root.children[place], [shown, rest] = tile.querySelector("dd").children;
    tile.classList.toggle("news", shown.textContent !== value && ["preemptions", "waiting"].includes(tile.dataset.figure));
    shown.textContent = value;
    rest.textContent = more;
    tile.style.setProperty("--share", share === undefined ? "0%" : `${100 * Math.min(1, share)}%`);
  });
}

// A bar with the share of each reason, and the two main reasons as a sentence. It keeps its place once it was there.
export function showWaits(root, { counts, sentence }) {
  const [bar, words] = root.children;
  if (!counts.length && root.hidden) return;
  root.hidden = false;
  bar.replaceChildren(...counts.map(([mark, number]) => {
    const share = make("span", { textContent: `${mark} ${number}`, title: `${mark} ${number}` });
    share.style.flexGrow = number;
    return share;
  }));
  words.textContent = words.title = sentence || "No request waits, or no page was open in this step.";
}
