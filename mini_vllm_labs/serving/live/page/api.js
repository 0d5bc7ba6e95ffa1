// Requests to the server: with the API key where there is one, and errors in words.

const KEY = "mini-vllm-api-key";
const GONE = "The server does not answer. It may have ended: start it again, and this page finds it by itself.";

export class RequestError extends Error {
  constructor(message, status = 0, code = "", retryAfter = 0) {
    super(message);
    Object.assign(this, { status, code, retryAfter });
  }
}

// Of several engines behind this address, the one that the page shows; empty for a single one.
export const fleet = { engine: "" };

export const apiKey = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (key) => sessionStorage.setItem(KEY, key),
};

async function errorOf(response) {
  const body = await response.json().catch(() => ({}));
  const { message = `The server answered with status ${response.status}.`, code = "" } = body.error ?? {};
  return new RequestError(inWords(response.status, message), response.status, code,
    Number(response.headers.get("Retry-After") ?? 0));
}

const BEFORE = {
  429: "The waiting queue is full: ", 503: "The server takes no requests now: ", 401: "The server asks for an API key: ",
};

const inWords = (status, message) => `${BEFORE[status] ?? ""}${message}${/[.?!]$/.test(message) ? "" : "."}`;

// A name for a request. (`crypto.randomUUID` is there over HTTPS and on localhost only.)
export function newName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Returns a response whose status is 200. Raises `RequestError`, also if no answer comes.
export async function request(path, { body, signal, name } = {}) {
  const headers = apiKey.get() ? { Authorization: `Bearer ${apiKey.get()}` } : {};
  if (name) headers["X-Request-Id"] = name;
  const sent = body === undefined ? { headers, signal } : {
    method: "POST", signal, headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let response;
  try {
    const more = fleet.engine && `${path.includes("?") ? "&" : "?"}engine=${fleet.engine}`;
    response = await fetch(path + more, sent);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(GONE);
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function ask(path, body) {
  return (await request(path, { body })).json();
}

// Yields the server-sent events of a response as [name, data].
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (true) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new RequestError(GONE);
    }
    if (part.done) return;
    const blocks = (text + part.value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const name = lines.find((line) => line.startsWith("event: "))?.slice(7) ?? "message";
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) yield [name, data];
    }
  }
}
