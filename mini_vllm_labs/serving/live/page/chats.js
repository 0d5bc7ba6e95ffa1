// Several chats in tabs, and the field in which to write to one of them, or to all.

import { Chat } from "./chat.js";
import { make } from "./shared.js";
import { tileOf } from "./requests.js";

// A browser keeps six connections to a server: one has the stream of the engine, one is for the controls.
const MAX_CHATS = 4;

export class Chats {
  constructor(find, requests, onFollow) {
    Object.assign(this, { find, requests, onFollow, all: [], model: "", chosen: null });
    find("add-chat").onclick = () => this.add();
    find("composer").onsubmit = (event) => {
      event.preventDefault();
      this.submit();
    };
    find("message").onkeydown = (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.chosen.isBusy) this.submit();
    };
    find("tabs").onkeydown = (event) => this.onKey(event);
    this.add();
  }

  onAsk() {}

  add() {
    if (this.all.length >= MAX_CHATS) return;
    const chat = new Chat(this.all.length + 1, this.requests, this.onFollow, () => this.show());
    chat.onExample = (text) => this.send(text);
    chat.onAnswer = (text) => { this.find("answered").textContent = `Chat ${chat.number}: ${text}`; };
    chat.tab = make("button", { type: "button", id: `tab-${chat.number}`, onclick: () => this.choose(chat) });
    chat.tab.setAttribute("role", "tab");
    chat.tab.setAttribute("aria-controls", chat.panel.id);
    chat.panel.onfocusin = chat.panel.onclick = () => this.choose(chat);
    this.all.push(chat);
    this.find("tabs").append(chat.tab);
    this.find("panels").append(chat.panel);
    this.choose(chat);
  }

  choose(chat) {
    this.chosen = chat;
    this.show();
  }

  show() {
    const { find, all, chosen } = this;
    for (const chat of all) {
      const isChosen = chat === chosen, tile = chat.answer?.tile;
      chat.tab.setAttribute("aria-selected", isChosen);
      chat.tab.tabIndex = isChosen ? 0 : -1;
      chat.tab.replaceChildren(...(tile ? [tileOf(tile)] : []), make("span", { textContent: "chat " }), `${chat.number}`);
      chat.tab.setAttribute("aria-label", `chat ${chat.number}${tile ? `, request ${tile.letter}` : ""}`);
      chat.tab.classList.toggle("busy", chat.isBusy);
      chat.panel.classList.toggle("chosen", isChosen);
    }
    find("add-chat").hidden = all.length >= MAX_CHATS;
    find("to-all-label").hidden = all.length < 2;
    find("send").textContent = chosen.isBusy ? "Stop" : "Send";
    find("send").classList.toggle("stop", chosen.isBusy);
  }

  submit() {
    if (this.chosen.isBusy) {
      this.targets().forEach((chat) => chat.stop());
      return;
    }
    const field = this.find("message"), text = field.value.trim();
    if (!text) return field.focus();
    field.value = "";
    this.send(text);
  }

  targets() {
    return this.find("to-all").checked && this.all.length > 1 ? this.all : [this.chosen];
  }

  send(text) {
    const limit = Number(this.find("max-tokens").value);
    const settings = { model: this.model, temperature: 0, ...(limit >= 1 ? { max_tokens: limit } : {}) };
    this.onAsk();
    for (const chat of this.targets()) if (!chat.isBusy) chat.send(text, settings);
  }

  onKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const place = (this.all.indexOf(this.chosen) + by + this.all.length) % this.all.length;
    this.choose(this.all[place]);
    this.chosen.tab.focus();
    event.preventDefault();
  }
}
