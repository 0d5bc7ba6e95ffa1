// The controls of the engine: pause, step, pace, the crowd. The server takes them from a page that it knows.

import { ask } from "./api.js";
import { make } from "./shared.js";

const PACES = [[null, "full speed"], [20, "20 steps/s"], [5, "5 steps/s"], [1, "1 step/s"]];
const FIRST = 20, VISITED = "mini-vllm-visited";

export class Controls {
  constructor(find, onError) {
    this.onError = onError;
    this.status = { steps_per_second: null, requests_per_second: 0 };
    this.before = null;
    this.pause = find("pause");
    this.stepButton = find("step");
    this.pace = find("pace");
    this.crowd = find("crowd");
    this.crowdAbout = find("crowd-about");
    this.disabled = [this.pause, this.stepButton, this.pace, this.crowd, find("show-me")];
    this.pace.append(...PACES.map(([, name], place) => make("option", { value: place, textContent: name })));
    this.pause.onclick = () => this.toggle();
    this.stepButton.onclick = () => this.step();
    this.pace.onchange = () => this.setPace(PACES[this.pace.value][0]);
    this.crowd.oninput = () => this.setCrowd(Number(this.crowd.value));
  }

  enable() {
    for (const control of this.disabled.splice(0)) control.disabled = false;
  }

  get isPaused() {
    return this.status.steps_per_second === 0;
  }

  toggle() {
    if (!this.isPaused) this.before = this.status.steps_per_second;
    return this.setPace(this.isPaused ? this.before : 0);
  }

  setPace(steps_per_second) {
    return this.tell("live/pace", { steps_per_second });
  }

  // The pace from now on, or from when a held engine goes on.
  async setNext(pace) {
    if (!this.isPaused) await this.setPace(pace);
    else this.before = pace || null;
  }

  // Several short answers would be over before a block is seen to move.
  slowForFirstVisit() {
    const { steps_per_second: pace, requests_per_second: crowd, num_unfinished: others } = this.status;
    if (localStorage.getItem(VISITED) || pace !== null || crowd || others) return;
    localStorage.setItem(VISITED, "yes");
    this.setPace(FIRST);
  }

  step() {
    return this.tell("live/step", {});
  }

  async setCrowd(requests_per_second) {
    this.showCrowd({ ...this.status, requests_per_second });
    if (this.isSending) {
      this.nextCrowd = requests_per_second;
      return;
    }
    this.isSending = true;
    await this.tell("live/crowd", { requests_per_second });
    this.isSending = false;
    const { nextCrowd } = this;
    this.nextCrowd = undefined;
    if (nextCrowd !== undefined) await this.setCrowd(nextCrowd);
  }

  async tell(path, body) {
    if (this.disabled.length) return; // keys reach a disabled control, too
    try {
      this.take(await ask(path, body));
    } catch (error) {
      this.onError(error);
    }
  }

  take(status) {
    this.status = status;
    const place = PACES.findIndex(([pace]) => pace === (this.isPaused ? this.before : status.steps_per_second));
    this.pace.value = Math.max(0, place);
    this.pause.textContent = this.isPaused ? "▶ Go on" : "❚❚ Pause";
    this.pause.title = this.isPaused ? "let the engine go on" : "pause the engine for everybody";
    this.pause.setAttribute("aria-label", this.pause.title);
    document.body.classList.toggle("paused", this.isPaused);
    if (document.activeElement !== this.crowd) this.crowd.value = status.requests_per_second;
    this.showCrowd(status);
  }

  showCrowd({ requests_per_second: rate, num_refused: refused, refusal }) {
    const words = rate ? `${rate} request${rate === 1 ? "" : "s"} per second` : "no requests";
    this.crowdAbout.textContent = refused ? `${words}, ${refused} refused` : words;
    this.crowdAbout.title = refusal ?? "";
    this.crowd.setAttribute("aria-valuetext", words);
  }
}
