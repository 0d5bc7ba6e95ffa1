// The page, put together.

import { apiKey } from "./api.js";
import { Chats } from "./chats.js";
import { Connection } from "./connection.js";
import { Controls } from "./controls.js";
import { Engine } from "./engine.js";
import { watchFleet } from "./fleet.js";
import { Look } from "./look.js";
import { showPreemption } from "./preemption.js";
import { Requests } from "./requests.js";

const find = (id) => document.getElementById(id);
const LASTS = 6000;
const STATES = { connecting: "connecting", open: "connected", lost: "no connection", locked: "needs the API key" };

function showState(state, words) {
  const shown = find("connection");
  shown.dataset.state = state;
  shown.textContent = state === "lost" ? words : STATES[state];
  if (state !== "locked") return;
  find("key-button").hidden = false;
  if (!find("key-dialog").open) find("key-dialog").showModal();
}

let forgotten = 0;

// A problem stays for a while, and then until the server is heard of again.
function showProblem({ message }, lasts = LASTS) {
  forgotten = performance.now() + lasts;
  find("connection").dataset.state = "problem";
  find("connection").textContent = message;
}

// The reason has several lines: it stands above everything, and stays. So does a notice until it is withdrawn.
function showDeath(reason) {
  showProblem({ message: "The engine has stopped." }, Infinity);
  engine.showEmpty(true, "The engine has stopped.");
  showAbove(`The engine has stopped: restart the server.\n${reason}`);
}

function showAbove(words = "") {
  if (find("death").textContent === words) return; // it would be read out again
  find("death").hidden = !words;
  find("death").textContent = words;
}

function forgetProblem() {
  if (find("connection").dataset.state === "problem" && performance.now() > forgotten) showState("open");
}

function showFacts({ model, num_blocks, block_size, token_budget, most_running }) {
  const number = (value) => value.toLocaleString("en");
  find("facts").replaceChildren(Object.assign(document.createElement("b"), { textContent: model }),
    ` ${number(num_blocks)} blocks of ${block_size} slots · ${number(token_budget)} tokens per step · at most ${most_running} run`);
}

const requests = new Requests();
const connection = new Connection({
  state: showState,
  hello(facts) {
    showAbove();
    requests.clear();
    engine.facts = facts;
    chats.model = facts.model;
    showFacts(facts);
    controls.enable();
    engine.fit();
    look.send();
  },
  picture(message) {
    forgetProblem();
    engine.take(message);
  },
  status(status) {
    forgetProblem();
    if (status.is_alive) showAbove(status.notice);
    else showDeath(status.reason);
    controls.take(status);
    engine.takeStatus(status);
  },
  failure: (problem) => showProblem(problem, 0),
  end: ({ message }) => showProblem({ message }),
});
const look = new Look(connection, showProblem);
const controls = new Controls(find, showProblem);
const engine = new Engine(find, look, controls, requests);
const chats = new Chats(find, requests, (id) => engine.follow(id === engine.followed ? "" : id));

chats.onAsk = () => {
  engine.showEmpty(true);
  controls.slowForFirstVisit();
};
find("show-me").onclick = () => showPreemption(find, engine, controls);

find("key-button").onclick = () => find("key-dialog").showModal();
find("key-form").onsubmit = () => {
  apiKey.set(find("key").value.trim());
  connection.unlock();
};
if (window === window.top) find("message").focus(); // a page around this one keeps its own
watchFleet(find, () => connection.abort.abort());
connection.run(() => engine.picture.size());
