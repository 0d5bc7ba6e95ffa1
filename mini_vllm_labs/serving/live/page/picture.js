// The picture of a step: swaps the layers that change, lets blocks and requests travel, marks what is followed.

import { about, isMotionWanted, keyOf, mark, travel, TRAVEL } from "./shared.js";

const GRID = 20, MIN_WIDTH = 340, MAX_WIDTH = 1100, MAX_GROWTH = 1.3, CALM = 400;

export class EnginePicture {
  constructor(root) {
    this.root = root;
    this.key = "";
    this.step = -1;
    this.moving = [];
    this.drawn = -Infinity;
  }

  // The size to draw for, on a grid so that a window that is being resized asks for few sizes.
  size() {
    const { clientWidth, clientHeight } = this.root;
    const onGrid = (length) => GRID * Math.floor(length / GRID);
    const width = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, onGrid(clientWidth)));
    const growth = Math.min(MAX_GROWTH, clientWidth / width);
    return { width, height: Math.max(240, onGrid(clientHeight / growth)) };
  }

  take(message) {
    const { step } = message.figures;
    if (message.svg) {
      this.root.innerHTML = message.svg;
      this.svg = this.root.firstElementChild;
      this.svg.style.maxWidth = `${MAX_GROWTH * this.svg.viewBox.baseVal.width}px`;
      this.layers = new Map([...this.svg.querySelectorAll("[data-layer]")].map((one) => [one.dataset.layer, one]));
    }
    const swap = () => {
      for (const [name, content] of Object.entries(message.layers)) this.layers.get(name).innerHTML = content;
    };
    const now = performance.now(), isCalm = now - this.drawn > CALM && Math.abs(step - this.step) === 1;
    if (isCalm && !message.svg && isMotionWanted()) this.moving = travel(this.svg, this.moving, swap, TRAVEL);
    else {
      for (const animation of this.moving.splice(0)) animation.cancel();
      swap();
    }
    for (const [name, data] of Object.entries(message.data ?? {})) {
      const layer = this.layers.get(name);
      for (const key of Object.keys(layer.dataset)) if (key !== "layer") delete layer.dataset[key];
      Object.assign(layer.dataset, data);
    }
    this.drawn = now;
    this.step = step;
    this.svg.setAttribute("aria-label", `${message.title}. ${message.sentence}`);
    this.svg.querySelector("title").textContent = message.title;
    this.svg.querySelector("desc").textContent = message.sentence;
    this.root.dataset.step = step;
    this.follow(this.key);
  }

  // `key` is request:NUMBER, block:NUMBER or empty. Returns what the picture says of it.
  follow(key) {
    this.key = key;
    if (!this.svg) return "";
    mark(this.svg, key);
    return key ? about(this.svg, key) : "";
  }

  // What a click hits: a step to go to, or a key to follow.
  hit(target) {
    const place = target.closest("[data-go-to]");
    return place ? { step: Number(place.getAttribute("data-go-to")) } : { key: keyOf(target) };
  }
}
