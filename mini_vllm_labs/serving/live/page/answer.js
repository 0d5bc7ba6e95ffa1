// One answer of a chat: its text as it comes, its times, its bill.

import { ask, events, newName, request, RequestError } from "./api.js";
import { make } from "./shared.js";
import { tileOf } from "./requests.js";

const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 2 : 1)} s`;
const counted = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
const BILL_PATIENCE = 20, BILL_PAUSE = 500;
const REASONS = { length: "ended at its limit of tokens", abort: "stopped" };

export class Answer {
  constructor(requests, onFollow) {
    Object.assign(this, { requests, onFollow, content: "", id: "", number: 0, state: "waiting" });
    this.sent = performance.now();
    this.follow = make("button", { type: "button", className: "request", hidden: true, onclick: () => onFollow(this.id) });
    this.text = make("p", { className: "text" });
    this.figures = make("p", { className: "figures" });
    this.bill = make("p", { className: "bill", hidden: true });
    this.element = make("div", { className: "answer" }, this.follow, make("div", {}, this.text, this.figures, this.bill));
    this.abort = new AbortController();
    this.showFigures();
    this.clock = setInterval(() => this.showFigures(), 200);
    this.onRequests = () => this.showTile();
    requests.addEventListener("change", this.onRequests);
  }

  // Reads the answer to its end. Raises `RequestError`; a stop is no error.
  async read(body) {
    // With a name of its own it can be followed while it still waits, when nothing has been answered yet.
    const name = newName();
    this.setId(`chatcmpl-${name}-0`);
    try {
      const response = await request("v1/chat/completions", { body, name, signal: this.abort.signal });
      for await (const [, data] of events(response)) if (data !== "[DONE]") this.take(JSON.parse(data));
      this.end(this.reason && this.reason !== "stop" ? REASONS[this.reason] ?? this.reason : "");
    } catch (error) {
      this.end(error.name === "AbortError" ? REASONS.abort : "ended by an error");
      if (error.name !== "AbortError") throw error;
    }
  }

  take(chunk) {
    this.isAdmitted = true;
    if (chunk.error) throw new RequestError(chunk.error.message, 500, chunk.error.code);
    if (chunk.usage) this.number = chunk.usage.completion_tokens;
    for (const { delta, finish_reason: reason } of chunk.choices) {
      if (reason) this.reason = reason;
      if (!delta.content) continue;
      this.first ??= performance.now();
      this.last = performance.now();
      this.state = "answering";
      this.content += delta.content;
      this.number += 1;
      this.text.textContent = this.content;
    }
    this.element.dispatchEvent(new Event("grown", { bubbles: true }));
  }

  setId(id) {
    this.id = id;
    this.showTile();
  }

  showTile() {
    const known = this.requests.get(this.id);
    if (!known || this.tile?.number === known.number) return;
    this.tile = known;
    if (this.state === "ended") this.requests.removeEventListener("change", this.onRequests);
    this.follow.replaceChildren(tileOf(known));
    this.follow.title = `follow request ${known.letter}`;
    this.follow.setAttribute("aria-label", this.follow.title);
    this.follow.hidden = false;
    this.element.dispatchEvent(new Event("named", { bubbles: true }));
  }

  get speed() {
    return this.last > this.first ? (1000 * (this.number - 1)) / (this.last - this.first) : 0;
  }

  showFigures(reason = "") {
    if (this.first === undefined) {
      const since = seconds(performance.now() - this.sent);
      this.figures.textContent = this.state === "waiting" ? `waits for its first token: ${since}` : reason;
      return;
    }
    const parts = [`first token after ${seconds(this.first - this.sent)}`, counted(this.number, "token")];
    if (this.speed) parts.push(`${this.speed.toFixed(this.speed < 10 ? 1 : 0)} tokens/s`);
    this.figures.textContent = [...parts, ...(reason ? [reason] : [])].join(" · ");
  }

  end(reason) {
    clearInterval(this.clock);
    this.state = "ended";
    this.showFigures(reason);
    if (this.isAdmitted) this.showBill();
  }

  // A request that was stopped ends at the next step, which may be a while away.
  async showBill(patience = BILL_PATIENCE) {
    try {
      const bill = await ask(`live/bills/${this.id}`);
      if (!bill) {
        if (patience) setTimeout(() => this.showBill(patience - 1), BILL_PAUSE);
        return;
      }
      const parts = [
        `${counted(bill.num_blocks, "block")} at most`,
        `${bill.num_cached_tokens} of ${counted(bill.num_prompt_tokens, "prompt token")} from the cache`,
        counted(bill.num_preemptions, "preemption"),
        `${counted(bill.num_steps, "step")}${bill.num_waited ? `, waited ${bill.num_waited}` : ""}`,
      ];
      this.bill.textContent = `Bill: ${parts.join(" · ")}`;
      this.bill.hidden = false;
    } catch (error) {
      this.bill.textContent = `No bill: ${error.message}`;
      this.bill.hidden = false;
    }
  }
}
