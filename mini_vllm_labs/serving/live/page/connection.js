// The stream of the engine: it begins again by itself whenever it ends.

import { events, request } from "./api.js";

const PAUSES = [500, 1000, 2000, 4000];

const wait = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

// Calls `on[name](data)` for each event, and `on.state(state, words)`: connecting, open, lost or locked.
export class Connection {
  constructor(on) {
    this.on = on;
    this.viewer = "";
    this.unlock = () => {};
  }

  async run(size) {
    for (let failures = 0; ; failures += 1) {
      try {
        const { width, height } = size();
        this.abort = new AbortController();
        const { signal } = this.abort;
        const response = await request(`live/stream?width=${width}&height=${height}`, { signal });
        failures = 0;
        for await (const [name, data] of events(response)) this.take(name, JSON.parse(data));
        this.on.state("lost", "The server has ended the stream.");
      } catch (error) {
        this.viewer = "";
        if (error.name === "AbortError") continue;
        if (error.status === 401) {
          this.on.state("locked", error.message);
          await new Promise((resolve) => { this.unlock = resolve; });
          continue;
        }
        if (error.status === undefined) console.warn(error);
        this.on.state("lost", error.message);
      }
      await wait(PAUSES[Math.min(failures, PAUSES.length - 1)]);
    }
  }

  take(name, data) {
    if (name === "hello") {
      this.viewer = data.viewer;
      this.on.state("open", "live");
    }
    this.on[name]?.(data);
  }
}
