// The requests that the picture knows: number, letter and colours, by id.

import { make } from "./shared.js";

export class Requests extends EventTarget {
  constructor() {
    super();
    this.known = new Map();
  }

  clear() {
    this.known.clear();
  }

  take(changes) {
    const entries = Object.entries(changes);
    for (const [id, [number, letter, color, ink]] of entries) {
      if (letter === undefined) this.known.delete(id);
      else this.known.set(id, { id, number: String(number), letter, color, ink });
    }
    if (entries.length) this.dispatchEvent(new Event("change"));
  }

  get(id) {
    return this.known.get(id);
  }

  withNumber(number) {
    return [...this.known.values()].findLast((one) => one.number === number);
  }
}

export function tileOf({ letter, color, ink }) {
  const tile = make("span", { className: "tile", textContent: letter });
  tile.style.background = color;
  tile.style.color = ink;
  return tile;
}
