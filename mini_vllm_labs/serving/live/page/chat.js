// One chat: its messages, and the answer that is being written.

import { Answer } from "./answer.js";
import { make } from "./shared.js";

const EXAMPLES = [
  "Tell me a story about Mina and a kite.", "What is the capital of Norway?", "What is 12 plus 7?",
];

export class Chat {
  constructor(number, requests, onFollow, onChange) {
    Object.assign(this, { number, requests, onFollow, onChange, messages: [], answer: null });
    this.empty = make("div", { className: "examples" }, make("p", { textContent: "For example:" }),
      ...EXAMPLES.map((text) => make("button", { type: "button", textContent: text, onclick: () => this.onExample(text) })));
    this.log = make("div", { className: "log", tabIndex: 0 }, this.empty);
    this.log.setAttribute("role", "log");
    this.log.setAttribute("aria-live", "off"); // a whole answer is spoken at its end, and not each token
    this.log.setAttribute("aria-label", `messages of chat ${number}`);
    this.panel = make("div", { className: "panel", id: `panel-${number}` }, this.log);
    this.panel.setAttribute("role", "tabpanel");
    this.panel.setAttribute("aria-labelledby", `tab-${number}`);
    this.log.addEventListener("grown", () => this.scroll());
    this.log.addEventListener("named", () => this.onChange());
  }

  onExample() {}

  onAnswer() {}

  get isBusy() {
    return this.answer !== null && this.answer.state !== "ended";
  }

  scroll() {
    const { scrollHeight, scrollTop, clientHeight } = this.log;
    if (scrollHeight - scrollTop - clientHeight < 120) this.log.scrollTop = scrollHeight;
  }

  append(element) {
    this.log.append(element);
    this.log.scrollTop = this.log.scrollHeight;
  }

  async send(text, settings) {
    this.empty.remove();
    this.append(make("p", { className: "question", textContent: text }));
    this.messages.push({ role: "user", content: text });
    await this.getAnswer(settings);
  }

  async getAnswer(settings) {
    const answer = new Answer(this.requests, this.onFollow);
    this.answer = answer;
    this.append(answer.element);
    this.onChange();
    const body = { ...settings, messages: this.messages, stream: true, stream_options: { include_usage: true } };
    try {
      await answer.read(body);
    } catch (error) {
      this.showError(error, settings);
    }
    if (answer.content) {
      this.messages.push({ role: "assistant", content: answer.content });
      this.onAnswer(answer.content);
    }
    this.onChange();
  }

  // An error leaves the question in place, and a way on: to ask again, or to begin anew.
  showError(error, settings) {
    const again = make("button", { type: "button", textContent: "Ask again" });
    const clear = make("button", { type: "button", textContent: "Clear this chat", onclick: () => this.clear() });
    const box = make("div", { className: "error" }, make("p", { textContent: error.message }), again, " ", clear);
    box.setAttribute("role", "alert");
    again.onclick = () => {
      box.remove();
      if (this.messages.at(-1)?.role === "assistant") this.messages.pop();
      this.getAnswer(settings);
    };
    this.append(box);
  }

  clear() {
    this.stop();
    this.messages = [];
    this.answer = null;
    this.log.replaceChildren(this.empty);
    this.onChange();
  }

  stop() {
    this.answer?.abort.abort();
  }
}
