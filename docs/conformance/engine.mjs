// An example engine for the conformance suite: the plain rules of vLLM 0.13.0's scheduler, without speculation and
// asynchronous mode. It was written from the traces' page and the protocol alone. Node 20, no packages.
//
//     mini-vllm conformance -- node docs/conformance/engine.mjs
import { createInterface } from "node:readline";

const HELLO = {
  protocol: 1,
  engine: "engine.mjs",
  version: "1",
  follows: "0.13.0",
  has: ["plain"],
  offers: ["order", "computed", "causes", "output", "ends", "queues", "blocks", "pool", "sent"],
  defects: ["stale_blocks"],
};

class Pool {
  // Free blocks stand in a queue, longest free first: a Map keeps the order and takes out of the middle.
  constructor(usable, caching) {
    this.caching = caching;
    this.free = new Map();
    for (let block = 1; block <= usable; block++) this.free.set(block, true);
    this.users = new Map(); // block -> number of requests that hold it
    this.hashOf = new Map(); // block -> hash
    this.blocksOf = new Map(); // hash -> Set of blocks, first entered first
    this.evicted = [];
  }
  take(count) {
    const taken = [];
    for (const block of this.free.keys()) {
      if (taken.length === count) break;
      taken.push(block);
    }
    for (const block of taken) {
      this.free.delete(block);
      this.users.set(block, 1);
      if (!this.hashOf.has(block)) continue;
      const hash = this.hashOf.get(block);
      const same = this.blocksOf.get(hash);
      same.delete(block);
      if (same.size === 0) this.blocksOf.delete(hash);
      this.hashOf.delete(block);
      this.evicted.push(block);
    }
    return taken;
  }
  hold(blocks) {
    for (const block of blocks) {
      this.free.delete(block);
      this.users.set(block, (this.users.get(block) ?? 0) + 1);
    }
  }
  giveBack(blocks) {
    for (const block of [...blocks].reverse()) {
      this.users.set(block, this.users.get(block) - 1);
      if (this.users.get(block) > 0) continue;
      this.users.delete(block);
      this.free.set(block, true); // at the end; a cached block keeps its content until it is given out
    }
  }
  enter(block, hash) {
    if (!this.caching || this.hashOf.has(block)) return;
    this.hashOf.set(block, hash);
    if (!this.blocksOf.has(hash)) this.blocksOf.set(hash, new Set());
    this.blocksOf.get(hash).add(block);
  }
  find(hash) {
    return this.blocksOf.get(hash)?.values().next().value;
  }
}

class Engine {
  constructor(config) {
    this.config = config;
    this.pool = new Pool(config.usable_blocks, config.enable_prefix_caching);
    this.requests = new Map();
    this.running = [];
    this.waiting = [];
    this.ended = [];
    this.step = [];
    this.hashes = new Map(); // "hash of the block before:tokens" -> a number for this content
  }

  add(message) {
    const fresh = { tokens: [...message.prompt], output: 0, computed: 0, blocks: [], hashes: [], seen: false };
    const request = { ...message, ...fresh };
    this.requests.set(request.id, request);
    this.wait([...this.waiting, request]);
  }
  wait(queue) {
    this.waiting = queue;
    if (this.config.policy !== "priority") return;
    queue.sort((a, b) => a.priority - b.priority || a.arrival_time - b.arrival_time || (a.id < b.id ? -1 : 1));
  }
  abort(id) {
    const known = this.requests.has(id);
    if (known) this.end(this.requests.get(id));
    return known;
  }
  end(request) {
    this.running = this.running.filter((other) => other !== request);
    this.waiting = this.waiting.filter((other) => other !== request);
    this.requests.delete(request.id);
    this.pool.giveBack(request.blocks);
    request.blocks = [];
    this.ended.push(request.id);
  }

  // The hashes of all full blocks of what is known of the request; each covers everything before it.
  contents(request) {
    const size = this.config.block_size;
    for (let i = request.hashes.length; (i + 1) * size <= request.tokens.length; i++) {
      const key = `${request.hashes[i - 1] ?? 0}:${request.tokens.slice(i * size, (i + 1) * size)}`;
      if (!this.hashes.has(key)) this.hashes.set(key, this.hashes.size + 1);
      request.hashes.push(this.hashes.get(key));
    }
    return request.hashes;
  }
  hits(request) {
    if (!this.config.enable_prefix_caching) return [];
    const most = Math.floor((request.tokens.length - 1) / this.config.block_size); // one token is left to compute
    const found = this.contents(request).slice(0, most).map((hash) => this.pool.find(hash));
    return found.includes(undefined) ? found.slice(0, found.indexOf(undefined)) : found;
  }
  // Blocks for n more tokens after `computed` ones, `hit` of them not yet in the table. Null: not enough memory.
  allocate(request, computed, n, hit = []) {
    const size = this.config.block_size;
    const tokens = Math.min(computed + n, this.config.max_model_len);
    const missing = Math.max(0, Math.ceil(tokens / size) - request.blocks.length - hit.length);
    if (missing + hit.filter((block) => this.pool.free.has(block)).length > this.pool.free.size) return null;
    this.pool.hold(hit);
    const fresh = this.pool.take(missing);
    request.blocks.push(...hit, ...fresh);
    // Entered when they are given out, before they are computed.
    const full = Math.floor(Math.min(computed + n, request.tokens.length) / size);
    this.contents(request).slice(0, full).forEach((hash, i) => this.pool.enter(request.blocks[i], hash));
    return fresh;
  }
  cut(n) {
    const limit = this.config.long_prefill_token_threshold;
    return limit > 0 ? Math.min(n, limit) : n;
  }

  schedule() {
    let budget = this.config.max_num_batched_tokens;
    const [scheduled, preempted] = [[], []];
    this.pool.evicted = [];
    const sent = this.ended.splice(0).sort();
    for (let at = 0; at < this.running.length && budget > 0; at++) {
      const request = this.running[at];
      const n = Math.min(this.cut(request.tokens.length - request.computed), budget);
      let fresh = this.allocate(request, request.computed, n);
      while (fresh === null) {
        const victim = this.victim();
        const index = scheduled.findIndex((one) => one.request === victim);
        const back = index < 0 ? 0 : scheduled[index].n;
        if (index >= 0) {
          scheduled.splice(index, 1);
          budget += back;
          at--; // it stood before this one
        }
        this.running = this.running.filter((other) => other !== victim);
        this.pool.giveBack(victim.blocks);
        victim.blocks = [];
        victim.computed = 0;
        this.wait([victim, ...this.waiting]);
        preempted.push([victim.id, request.id, back]);
        if (victim === request) break;
        fresh = this.allocate(request, request.computed, n);
      }
      if (fresh === null) break;
      scheduled.push({ request, kind: "running", computed: request.computed, n, fresh });
      budget -= n;
    }
    while (preempted.length === 0 && this.waiting.length > 0 && budget > 0) {
      if (this.running.length >= this.config.max_num_seqs) break;
      const request = this.waiting[0];
      const hit = this.hits(request);
      const computed = hit.length * this.config.block_size;
      let n = this.cut(request.tokens.length - computed);
      if (!this.config.enable_chunked_prefill && n > budget) break;
      n = Math.min(n, budget);
      const fresh = this.allocate(request, computed, n, hit);
      if (fresh === null) break;
      this.waiting.shift();
      this.running.push(request);
      scheduled.push({ request, kind: request.seen ? "resumed" : "new", computed, n, fresh, hit: computed });
      request.seen = true;
      budget -= n;
    }
    for (const one of scheduled) one.request.computed = one.computed + one.n;
    this.step = scheduled;
    const answered = ({ request, fresh, ...rest }) => ({
      id: request.id, ...rest, new_blocks: fresh, blocks: [...request.blocks],
    });
    return {
      scheduled: scheduled.map(answered),
      preempted,
      evicted: this.pool.evicted,
      finished_sent: sent,
      free_after_schedule: this.pool.free.size,
      detail: { shared: Object.fromEntries([...this.pool.users].filter(([, users]) => users > 1)) },
    };
  }
  victim() {
    if (this.config.policy !== "priority") return this.running.at(-1);
    const worse = (a, b) => a.priority > b.priority || (a.priority === b.priority && a.arrival_time > b.arrival_time);
    return this.running.reduce((worst, other) => (worse(other, worst) ? other : worst));
  }

  update(sampled) {
    const [output, finished] = [[], []];
    for (const { request } of this.step) {
      if (!this.requests.has(request.id) || !(request.id in sampled)) continue;
      const kept = [];
      for (const token of sampled[request.id]) {
        for (const list of [request.tokens, kept]) list.push(token);
        request.output++;
        const reason = this.stop(request, token);
        if (reason === null) continue;
        finished.push([request.id, ...reason]);
        this.end(request);
        break;
      }
      output.push([request.id, kept]);
    }
    return {
      output,
      finished,
      running_after: this.running.map((request) => [request.id, request.tokens.length, request.computed, 0]),
      waiting_after: this.waiting.map((request) => request.id),
      free_after_update: this.pool.free.size,
      detail: { free_queue: [...this.pool.free.keys()], cached: [...this.pool.hashOf.keys()].sort((a, b) => a - b) },
    };
  }
  stop(request, token) {
    if (!request.ignore_eos && token === this.config.eos_token_id) return ["stop", null];
    if (request.stop_token_ids.includes(token)) return ["stop", token];
    if (request.tokens.length >= this.config.max_model_len) return ["length", null];
    if (request.output >= request.max_tokens) return ["length", null];
    return null;
  }
}

let engine = null;
const answers = {
  hello: () => HELLO,
  init: (message) => ((engine = new Engine(message.config)), { ok: true }),
  add: (message) => (engine.add(message), { ok: true }),
  abort: (message) => (engine.abort(message.id), { ok: true }),
  step: (message) => ({ step: message.step, ...engine.schedule() }),
  update: (message) => ({ step: message.step, ...engine.update(message.sampled) }),
  end: () => ({ ok: true }),
};
createInterface({ input: process.stdin }).on("line", (line) => {
  let answer;
  try {
    const message = JSON.parse(line);
    answer = answers[message.op]?.(message) ?? { unsupported: message.op };
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
