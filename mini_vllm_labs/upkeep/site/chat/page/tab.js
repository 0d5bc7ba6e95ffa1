// Answers the page's requests out of a worker in this tab: the page itself is that of `mini-vllm serve`.
//
// To the worker: {number, path, body, name}, or {number, leaves}. From it: {progress}, {ready} or {failed: words}, then
// {number, kind, value} with a status, data, and an end.

const OLD = "This browser is too old for the page: it needs WebAssembly and workers with modules. Any browser of 2023 or later has them.";
const STUCK = "The engine in this tab has not come up: the page's files cannot be loaded. Load the page again; opened from a disk it needs `python -m http.server`.";
const PATIENCE = 120000, EXAMPLE = "Tell me a story about Mina and a kite.";
const answers = new Map();
let count = 0, failure = "", isReady = false;

function fail(words) {
  if (failure) return;
  failure = `The engine cannot start here. ${words}`;
  const box = document.getElementById("death");
  box.textContent = failure;
  box.hidden = false;
  show("The engine is not there.");
  for (const { reject } of answers.values()) reject(new TypeError(failure));
}

function show(words) {
  const head = document.querySelector("#picture .empty b");
  if (head) head.textContent = words;
}

function begin() {
  if (typeof WebAssembly !== "object" || typeof Worker !== "function") return fail(OLD);
  const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  const late = setTimeout(() => fail(STUCK), PATIENCE);
  worker.onerror = (event) => { event.preventDefault(); fail(event.message ?? STUCK); };
  worker.onmessage = ({ data }) => {
    if (data.progress) show(data.progress);
    else if (data.failed) fail(data.failed);
    else if (!data.ready) answers.get(data.number)?.[data.kind](data.value);
    if (data.progress) return;
    clearTimeout(late);
    if (data.ready) {
      show("The engine has nothing to do.");
      offerExample();
    }
    isReady = true;
  };
  return worker;
}

// Blocks move before anything is typed, unless the visitor was quicker or wants no motion: then Enter sends the example.
function offerExample() {
  if (document.getElementById("connection").dataset.state !== "open") return setTimeout(offerExample, 50);
  const field = document.getElementById("message");
  if (field.value || document.querySelector("#picture svg")) return;
  field.value = EXAMPLE;
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) document.getElementById("composer").requestSubmit();
}

const worker = begin();

// As `fetch`, for the routes of the page.
globalThis.fetch = (path, { body, headers = {}, signal } = {}) => new Promise((resolve, reject) => {
  const number = count += 1, encoder = new TextEncoder();
  if (failure) {
    resolve(Response.json({ error: { message: failure } }, { status: 500 }));
    return;
  }
  let stream, gone = false;
  const leave = () => {
    gone = true;
    answers.delete(number);
    worker.postMessage({ number, leaves: true });
    const error = new DOMException("stopped", "AbortError");
    reject(error);
    try { stream?.error(error); } catch { /* it has ended */ }
  };
  if (signal?.aborted) return leave();
  signal?.addEventListener("abort", leave);
  answers.set(number, {
    reject,
    status: (status) => resolve(new Response(new ReadableStream({
      start: (controller) => { stream = controller; },
      cancel: leave,
    }), { status })),
    data: (text) => stream.enqueue(encoder.encode(text)),
    end: () => {
      answers.delete(number);
      signal?.removeEventListener("abort", leave);
      if (!gone) stream?.close();
    },
  });
  worker.postMessage({ number, path, body, name: headers["X-Request-Id"] ?? "" });
});
