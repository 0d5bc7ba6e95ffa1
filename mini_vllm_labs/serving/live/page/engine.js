// The engine's side of the page: the picture and its sentence, replay, and what is followed.

import { showFigures, showWaits } from "./figures.js";
import { EnginePicture } from "./picture.js";
import { make } from "./shared.js";

const SPEECH = 3000, RESIZED = 150, MAX_LISTED = 40;

export class Engine {
  constructor(find, look, controls, requests) {
    Object.assign(this, { find, look, controls, requests, facts: {}, followed: "", newest: -1, oldest: 0, at: -1 });
    this.picture = new EnginePicture(find("picture"));
    this.spoken = -SPEECH;
    this.bindReplay();
    this.bindFollow();
    find("engine").onkeydown = (event) => this.onKey(event);
    find("meaning").onclick = () => this.toggleLegend();
    find("twin").ontoggle = () => look.set({ with_text: find("twin").open });
    new ResizeObserver(() => {
      clearTimeout(this.resized);
      this.resized = setTimeout(() => this.fit(), RESIZED);
    }).observe(find("picture"));
    requests.addEventListener("change", () => this.listRequests());
  }

  get isLive() {
    return this.look.step === null;
  }

  fit() {
    const size = this.picture.size(), { width, height } = this.look.size;
    if (size.width !== width || size.height !== height) this.look.set({ size });
  }

  bindReplay() {
    const { find } = this;
    find("at").oninput = () => this.go(Number(find("at").value));
    find("previous").onclick = () => this.go(this.at - 1);
    find("next").onclick = () => this.go(this.at + 1);
    find("live").onclick = () => this.goLive();
  }

  bindFollow() {
    this.find("follow").onchange = () => this.follow(this.find("follow").value);
    this.find("picture").onclick = ({ target }) => {
      const { step, key } = this.picture.hit(target);
      if (step !== undefined) this.go(step);
      else this.followKey(key);
    };
    this.listRequests();
  }

  // To a step of those that are kept; after the newest one the picture is live again.
  go(step) {
    if (this.newest < 0) return;
    this.look.set({ step: Math.max(this.oldest, Math.min(this.newest, step)) });
    this.showPlace();
  }

  goLive() {
    this.look.set({ step: null });
    this.showPlace();
  }

  followKey(key) {
    const [kind, number] = key.split(":");
    const id = kind === "request" ? this.requests.withNumber(number)?.id ?? "" : key;
    this.follow(id === this.followed ? "" : id);
  }

  // `id` is that of a request, or block:NUMBER.
  follow(id) {
    this.followed = id;
    this.look.set({ follow: id.startsWith("block:") ? "" : id });
    this.listRequests();
    this.showFollowed();
  }

  showFollowed() {
    const { followed, requests } = this, known = requests.get(followed), box = this.find("about");
    const isBlock = followed.startsWith("block:");
    const words = this.picture.follow(isBlock ? followed : known ? `request:${known.number}` : "");
    box.hidden = !followed;
    box.textContent = box.title = words || (followed ? "what you follow is not in this step" : "");
    this.find("picture").dataset.follow = followed;
  }

  listRequests() {
    const menu = this.find("follow"), known = [...this.requests.known.values()];
    // The newest ones and the followed one; any other can be clicked in the picture.
    const listed = known.slice(-MAX_LISTED), ids = ["", ...listed.map(({ id }) => id)];
    if (!ids.includes(this.followed)) ids.splice(1, 0, this.followed);
    if (document.activeElement === menu && ids.length === menu.options.length) return;  // it may be open
    const nameOf = (id) => id ? (this.requests.get(id) ? `request ${this.requests.get(id).letter}` : id.replace(":", " ")) : "no request";
    menu.replaceChildren(...ids.map((value) => make("option", { value, textContent: nameOf(value) })));
    menu.value = this.followed;
  }

  take(message) {
    this.requests.take(message.requests);
    this.picture.take(message);
    if (message.legend) this.find("legend").innerHTML = message.legend;
    showFigures(this.find("tiles"), message.figures, this.facts);
    showWaits(this.find("waits"), message.figures.waits);
    this.at = message.figures.step;
    this.find("sentence").textContent = this.find("sentence").title = message.sentence;
    if (this.look.with_text) this.find("text").textContent = message.text;
    this.speak(`Step ${this.at}. ${message.sentence}`);
    this.showFollowed();
    this.showPlace();
  }

  // What stands in the picture's place before the first one.
  showEmpty(isBusy, words = "") {
    const head = this.find("picture").querySelector(".empty b");
    if (!head) return;
    const held = this.controls.isPaused ? "The engine is paused: requests wait for its next step." : "The engine is at work. Its first picture is being drawn.";
    head.textContent = words || (isBusy ? held : "The engine has nothing to do.");
  }

  // At once while the visitor goes from step to step, else now and then, and the last one for sure.
  speak(words) {
    const isCalm = !this.isLive || this.controls.isPaused;
    const rest = isCalm ? 0 : Math.max(0, this.spoken + SPEECH - performance.now());
    clearTimeout(this.speech);
    this.speech = setTimeout(() => {
      this.spoken = performance.now();
      this.find("spoken").textContent = words;
    }, rest);
  }

  takeStatus({ is_alive, newest, oldest, num_arrived: arrived, num_unfinished: unfinished, preempted }) {
    Object.assign(this, { newest, oldest, preempted });
    if (is_alive) this.showEmpty(unfinished > 0 || newest >= 0);
    this.arrived = arrived;
    this.showPlace();
  }

  showPlace() {
    const range = this.find("at"), { newest, oldest, isLive } = this;
    const shown = isLive ? newest : this.look.step;
    range.disabled = newest < 0;
    [range.min, range.max, range.value] = [oldest, Math.max(oldest, newest), Math.max(oldest, shown)];
    range.setAttribute("aria-valuetext", `step ${shown} of ${oldest} to ${newest}`);
    this.find("previous").disabled = newest < 0 || shown <= oldest;
    this.find("next").disabled = newest < 0 || shown >= newest;
    this.find("live").setAttribute("aria-pressed", isLive);
    document.body.classList.toggle("looks-back", !isLive);
    const arrived = this.controls.isPaused && this.arrived ? `paused, ${this.arrived} arrived since` : "";
    const ago = isLive ? arrived || (this.controls.isPaused ? "paused" : "") : `${(newest - shown).toLocaleString("en")} steps ago`;
    this.find("place").textContent = ago;
  }

  toggleLegend() {
    const legend = this.find("legend");
    legend.hidden = !legend.hidden;
    this.find("meaning").setAttribute("aria-expanded", !legend.hidden);
  }

  onKey(event) {
    if (event.target !== this.find("engine") || event.altKey || event.ctrlKey || event.metaKey) return;
    const keys = {
      ArrowLeft: () => this.go(this.at - 1), ArrowRight: () => this.go(this.at + 1), End: () => this.goLive(),
      PageUp: () => this.go(this.at - 10), PageDown: () => this.go(this.at + 10), Home: () => this.go(this.oldest),
      " ": () => this.controls.toggle(), Enter: () => this.controls.step(), Escape: () => this.follow(""),
    };
    if (!keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  }
}
