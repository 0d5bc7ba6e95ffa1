// The forward pass of a small Llama over a paged KV cache, in typed arrays: what `JavaScriptRunner` calls in a browser.
//
// Names and shapes are those of `runner/llama.py` and `FlatBatch`: T tokens of R requests in one row, S of which need a
// token. A sum is kept in a double and rounded to a float where an array stores it. Evaluated as a script, whose value
// is the class.

const MATRICES = ["qkv", "output", "gateUp", "down"];
const ROWS = 32, WIDEST = 4096; // tokens that are multiplied at once, and the most columns

class LlamaModel {
  // `file` is a model.safetensors as bytes, `config` its config.json as text. Throws an Error that names what is wrong.
  constructor(file, config) {
    const given = JSON.parse(config);
    if (given.model_type !== "llama" || given.hidden_act !== "silu" || given.rope_parameters.rope_type !== "default")
      throw new Error(`the model must be a Llama with silu and plain RoPE, got ${given.model_type}`);
    Object.assign(this, {
      hidden: given.hidden_size, inner: given.intermediate_size, headDim: given.head_dim, epsilon: given.rms_norm_eps,
      heads: given.num_attention_heads, kvHeads: given.num_key_value_heads, vocab: given.vocab_size,
      maxLen: given.max_position_embeddings,
    });
    if (this.heads !== 4 * this.kvHeads || this.hidden % 8 || this.inner % 8 || Math.max(this.vocab, 2 * this.inner) > WIDEST)
      throw new Error("4 query heads must share a K/V head, sizes be multiples of 8, and at most 4096 columns be there");
    const tensor = tensorsOf(file);
    this.embedding = tensor("model.embed_tokens.weight");
    this.logitsWeight = padded(given.tie_word_embeddings ? this.embedding : tensor("lm_head.weight"), this.hidden);
    this.lastNorm = tensor("model.norm.weight");
    this.layers = Array.from({ length: given.num_hidden_layers }, (_, number) => {
      const part = (name) => tensor(`model.layers.${number}.${name}.weight`);
      return {
        attentionNorm: part("input_layernorm"), mlpNorm: part("post_attention_layernorm"),
        qkv: joined(["q_proj", "k_proj", "v_proj"].map((name) => part(`self_attn.${name}`))),
        output: part("self_attn.o_proj"), gateUp: joined([part("mlp.gate_proj"), part("mlp.up_proj")]),
        down: part("mlp.down_proj"),
      };
    });
    this.setRotary(given.rope_parameters.rope_theta);
    this.product = product;
    this.moveToLanes();
  }

  // Where the browser has WebAssembly with SIMD, let it multiply: the matrices move to its memory.
  moveToLanes() {
    const owners = [...this.layers.flatMap((layer) => MATRICES.map((name) => [layer, name])), [this, "logitsWeight"]];
    const lanes = productInLanes(owners.map(([owner, name]) => owner[name]));
    if (!lanes) return;
    for (const [owner, name] of owners) owner[name] = lanes.place(owner[name]);
    this.product = lanes.product;
  }

  // Cosine and sine [max_position_embeddings, headDim / 2] of the angles, rounded as torch rounds them.
  setRotary(theta) {
    const half = this.headDim / 2;
    this.cos = new Float32Array(this.maxLen * half);
    this.sin = new Float32Array(this.maxLen * half);
    for (let i = 0; i < half; i += 1) {
      const frequency = Math.fround(1 / theta ** ((2 * i) / this.headDim));
      for (let position = 0; position < this.maxLen; position += 1) {
        const angle = Math.fround(position * frequency);
        this.cos[position * half + i] = Math.cos(angle);
        this.sin[position * half + i] = Math.sin(angle);
      }
    }
  }

  // The KV cache of each layer: [blocks * block_size, kvHeads * headDim], a slot per row.
  allocate(numBlocks, blockSize) {
    this.blockSize = blockSize;
    const size = numBlocks * blockSize * this.kvHeads * this.headDim;
    for (const layer of this.layers) [layer.keys, layer.values] = [new Float32Array(size), new Float32Array(size)];
  }

  // One step. `inputIds`, `positions`, `slotMapping` [T]; `queryStartLoc` [R + 1]; `blockTables` [R, longest], all
  // Int32Array; `logitsIndices` Int32Array [S]; `sampling` Float64Array [S, 4]: temperature, top_k, top_p, draw.
  // Returns an Int32Array of S tokens, -1 where the logits are not finite.
  executeModel(inputIds, positions, slotMapping, queryStartLoc, blockTables, logitsIndices, sampling) {
    const hidden = this.forward(inputIds, positions, slotMapping, queryStartLoc, blockTables);
    const numRows = logitsIndices.length, { hidden: size, vocab } = this;
    const rows = new Float32Array(numRows * size);
    logitsIndices.forEach((row, i) => rows.set(hidden.subarray(row * size, (row + 1) * size), i * size));
    const width = this.logitsWeight.length / size;
    const logits = this.product(this.norm(rows, this.lastNorm), this.logitsWeight, size);
    return Int32Array.from({ length: numRows }, (_, i) =>
      sampled(logits.subarray(i * width, i * width + vocab), ...sampling.subarray(4 * i, 4 * i + 4)));
  }

  // Returns the hidden state [T, hidden] behind the last layer. K and V of all tokens are written before any attends.
  forward(inputIds, positions, slotMapping, queryStartLoc, blockTables) {
    const { hidden: size, headDim, heads, kvHeads } = this;
    const hidden = new Float32Array(inputIds.length * size);
    inputIds.forEach((token, t) => hidden.set(this.embedding.subarray(token * size, (token + 1) * size), t * size));
    const slots = slotsOf(positions, queryStartLoc, blockTables, this.blockSize);
    const queries = heads * headDim, kv = kvHeads * headDim;
    for (const layer of this.layers) {
      const qkv = this.product(this.norm(hidden, layer.attentionNorm), layer.qkv, size);
      this.rotate(qkv, positions, queries + 2 * kv);
      for (let t = 0; t < inputIds.length; t += 1) {
        const key = t * (queries + 2 * kv) + queries;
        layer.keys.set(qkv.subarray(key, key + kv), slotMapping[t] * kv);
        layer.values.set(qkv.subarray(key + kv, key + 2 * kv), slotMapping[t] * kv);
      }
      add(hidden, this.product(this.attend(qkv, layer, positions, queryStartLoc, slots), layer.output, queries));
      const gateUp = this.product(this.norm(hidden, layer.mlpNorm), layer.gateUp, size);
      add(hidden, this.product(this.gated(gateUp), layer.down, this.inner));
    }
    return hidden;
  }

  norm(numbers, weight) {
    const { hidden: size, epsilon } = this, normed = new Float32Array(numbers.length);
    for (let start = 0; start < numbers.length; start += size) {
      let sum = 0;
      for (let i = 0; i < size; i += 1) sum += numbers[start + i] * numbers[start + i];
      const scale = 1 / Math.sqrt(sum / size + epsilon);
      for (let i = 0; i < size; i += 1) normed[start + i] = numbers[start + i] * scale * weight[i];
    }
    return normed;
  }

  // Turn each pair (i, i + headDim / 2) of every query and key head, in place.
  rotate(qkv, positions, width) {
    const { headDim, cos, sin } = this, half = headDim / 2, turning = (this.heads + this.kvHeads) * headDim;
    for (let t = 0; t < positions.length; t += 1) {
      const at = positions[t] * half;
      for (let head = t * width; head < t * width + turning; head += headDim) {
        for (let i = 0; i < half; i += 1) {
          const first = qkv[head + i], second = qkv[head + half + i];
          qkv[head + i] = first * cos[at + i] - second * sin[at + i];
          qkv[head + half + i] = second * cos[at + i] + first * sin[at + i];
        }
      }
    }
  }

  gated(gateUp) {
    const { inner } = this, numRows = gateUp.length / (2 * inner), result = new Float32Array(numRows * inner);
    for (let row = 0; row < numRows; row += 1) {
      const gate = 2 * row * inner, up = gate + inner;
      for (let i = 0; i < inner; i += 1)
        result[row * inner + i] = (gateUp[gate + i] / (1 + Math.exp(-gateUp[gate + i]))) * gateUp[up + i];
    }
    return result;
  }

  // Attend from each token to its request's tokens up to itself; returns [T, heads * headDim].
  attend(qkv, layer, positions, queryStartLoc, slots) {
    const { headDim, heads, kvHeads } = this, width = (heads + 2 * kvHeads) * headDim;
    const result = new Float32Array(positions.length * heads * headDim);
    for (let request = 0; request + 1 < queryStartLoc.length; request += 1) {
      for (let t = queryStartLoc[request]; t < queryStartLoc[request + 1]; t += 1) {
        for (let group = 0; group < kvHeads; group += 1) {
          const offset = 4 * group * headDim;
          attendFour(
            qkv, t * width + offset, layer, kvHeads * headDim, group * headDim, slots[request], positions[t] + 1,
            headDim, result, t * heads * headDim + offset,
          );
        }
      }
    }
    return result;
  }
}

// The four query heads that share a K/V head, over `length` slots.
function attendFour(qkv, query, { keys, values }, kv, head, slots, length, headDim, result, place) {
  const scale = headDim ** -0.5, scores = new Float64Array(4 * length);
  const [second, third, fourth] = [headDim, 2 * headDim, 3 * headDim];
  for (let j = 0; j < length; j += 1) {
    const key = slots[j] * kv + head;
    let a = 0, b = 0, c = 0, d = 0;
    for (let i = 0; i < headDim; i += 1) {
      const number = keys[key + i], at = query + i;
      a += qkv[at] * number;
      b += qkv[at + second] * number;
      c += qkv[at + third] * number;
      d += qkv[at + fourth] * number;
    }
    scores[j] = a * scale;
    scores[length + j] = b * scale;
    scores[2 * length + j] = c * scale;
    scores[3 * length + j] = d * scale;
  }
  for (let start = 0; start < 4 * length; start += length) softmax(scores, start, length);
  // Two columns of the values at a time: the scores are read half as often.
  for (let i = 0; i < headDim; i += 2) {
    let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
    for (let j = 0; j < length; j += 1) {
      const at = slots[j] * kv + head + i, left = values[at], right = values[at + 1];
      const p = scores[j], q = scores[length + j], r = scores[2 * length + j], s = scores[3 * length + j];
      a += p * left; b += q * left; c += r * left; d += s * left;
      e += p * right; f += q * right; g += r * right; h += s * right;
    }
    const to = place + i;
    result[to] = a; result[to + second] = b; result[to + third] = c; result[to + fourth] = d;
    result[to + 1] = e; result[to + second + 1] = f; result[to + third + 1] = g; result[to + fourth + 1] = h;
  }
}

function softmax(scores, start, length) {
  let most = -Infinity, sum = 0;
  for (let j = start; j < start + length; j += 1) most = Math.max(most, scores[j]);
  for (let j = start; j < start + length; j += 1) sum += scores[j] = Math.exp(scores[j] - most);
  for (let j = start; j < start + length; j += 1) scores[j] /= sum;
}

// The slots of each request's tokens, the first to the last of this step, found through its block table.
function slotsOf(positions, queryStartLoc, blockTables, blockSize) {
  const numRequests = queryStartLoc.length - 1, longest = blockTables.length / numRequests;
  return Array.from({ length: numRequests }, (_, request) => {
    const slots = new Int32Array(positions[queryStartLoc[request + 1] - 1] + 1);
    for (let j = 0; j < slots.length; j += 1) {
      const block = blockTables[request * longest + Math.floor(j / blockSize)];
      slots[j] = block * blockSize + (j % blockSize);
    }
    return slots;
  });
}

// Rows of `left` [T, K] times rows of `weight` [N, K]: [T, N]. N is a multiple of 4. Eight sums at a time: four rows of
// the weight are read once for two tokens.
function product(left, weight, k) {
  const numTokens = left.length / k, n = weight.length / k, result = new Float32Array(numTokens * n);
  for (let row = 0; row < n; row += 4) {
    const w0 = row * k, w1 = w0 + k, w2 = w1 + k, w3 = w2 + k;
    let t = 0;
    for (; t + 1 < numTokens; t += 2) {
      const x = t * k, y = x + k;
      let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
      for (let i = 0; i < k; i += 1) {
        const p = left[x + i], q = left[y + i], r0 = weight[w0 + i], r1 = weight[w1 + i], r2 = weight[w2 + i], r3 = weight[w3 + i];
        a += p * r0; b += p * r1; c += p * r2; d += p * r3;
        e += q * r0; f += q * r1; g += q * r2; h += q * r3;
      }
      const to = t * n + row;
      result[to] = a; result[to + 1] = b; result[to + 2] = c; result[to + 3] = d;
      result[to + n] = e; result[to + n + 1] = f; result[to + n + 2] = g; result[to + n + 3] = h;
    }
    if (t < numTokens) {
      const x = t * k;
      let a = 0, b = 0, c = 0, d = 0;
      for (let i = 0; i < k; i += 1) {
        const p = left[x + i];
        a += p * weight[w0 + i]; b += p * weight[w1 + i]; c += p * weight[w2 + i]; d += p * weight[w3 + i];
      }
      const to = t * n + row;
      result[to] = a; result[to + 1] = b; result[to + 2] = c; result[to + 3] = d;
    }
  }
  return result;
}

// The same with four lanes of floats: product.wat, assembled. Returns `place`, which moves a weight to its memory, and
// `product` for weights that are there; null if there is no such WebAssembly.
function productInLanes(weights) {
  const numWeights = weights.reduce((sum, one) => sum + one.length, 0);
  const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * numWeights + 8 * ROWS * WIDEST) / 65536) });
  let run;
  try {
    const bytes = Uint8Array.from(atob(PRODUCT), (char) => char.charCodeAt(0));
    run = new WebAssembly.Instance(new WebAssembly.Module(bytes), { tab: { memory } }).exports.product;
  } catch {
    return null;
  }
  const numbers = new Float32Array(memory.buffer), input = numWeights, output = input + ROWS * WIDEST;
  let free = 0;
  return {
    place(weight) {
      numbers.set(weight, free);
      free += weight.length;
      return numbers.subarray(free - weight.length, free);
    },
    product(left, weight, k) {
      const numTokens = left.length / k, n = weight.length / k, result = new Float32Array(numTokens * n);
      for (let t = 0; t < numTokens; t += ROWS) {
        const count = Math.min(ROWS, numTokens - t);
        numbers.set(left.subarray(t * k, (t + count) * k), input);
        run(4 * input, weight.byteOffset, 4 * k, count, n, 4 * output);
        result.set(numbers.subarray(output, output + count * n), t * n);
      }
      return result;
    },
  };
}

const PRODUCT = [
  "AGFzbQEAAAABCgFgBn9/f39/fwACDwEDdGFiBm1lbW9yeQIAAQMCAQAHCwEHcHJvZHVjdAAACuQDAeEDAgh/BXsgAkEBdCEMIAwgAmohDSAEIQ",
  "YDQCAAIQggBSEJIAMhBwNA/QwAAAAAAAAAAAAAAAAAAAAAIQ8gDyEQIA8hESAPIRIgASEKIAEgAmohCwNAIAj9AAQAIQ4gDyAOIAr9AAQA/eYB",
  "/eQBIQ8gECAOIAogAmr9AAQA/eYB/eQBIRAgESAOIAogDGr9AAQA/eYB/eQBIREgEiAOIAogDWr9AAQA/eYB/eQBIRIgCP0ABBAhDiAPIA4gCv",
  "0ABBD95gH95AEhDyAQIA4gCiACav0ABBD95gH95AEhECARIA4gCiAMav0ABBD95gH95AEhESASIA4gCiANav0ABBD95gH95AEhEiAIQSBqIQgg",
  "CkEgaiIKIAtJDQALIA8gEP0NAAECAxAREhMEBQYHFBUWFyAPIBD9DQgJCgsYGRobDA0ODxwdHh/95AEhDiARIBL9DQABAgMQERITBAUGBxQVFh",
  "cgESAS/Q0ICQoLGBkaGwwNDg8cHR4f/eQBIRIgCSAOIBL9DQABAgMEBQYHEBESExQVFhcgDiAS/Q0ICQoLDA0ODxgZGhscHR4f/eQB/QsEACAJ",
  "IARBAnRqIQkgB0EBayIHDQALIAEgAkECdGohASAFQRBqIQUgBkEEayIGDQALCw==",
].join("");

function add(numbers, more) {
  for (let i = 0; i < numbers.length; i += 1) numbers[i] += more[i];
}

// A token for a row of logits, by the rules of phase 6's `sample`; -1 if they are not finite.
function sampled(logits, temperature, topK, topP, draw) {
  let best = 0;
  for (let i = 0; i < logits.length; i += 1) {
    if (!Number.isFinite(logits[i])) return -1;
    if (logits[i] > logits[best]) best = i;
  }
  if (!temperature) return best;
  const most = logits[best], share = (token) => Math.exp((logits[token] - most) / temperature);
  let tokens = Array.from(logits.keys());
  if (topK || topP < 1) tokens.sort((one, other) => logits[other] - logits[one]);
  if (topK) tokens = tokens.slice(0, topK);
  let shares = tokens.map(share);
  if (topP < 1) {
    const limit = topP * shares.reduce((sum, one) => sum + one, 0);
    let reached = 0;
    shares = shares.filter((one) => { const isKept = reached < limit; reached += one; return isKept; });
  }
  const goal = draw * shares.reduce((sum, one) => sum + one, 0);
  let reached = 0;
  const place = shares.findIndex((one) => (reached += one) > goal);
  return tokens[place < 0 ? shares.length - 1 : place];
}

// A function from a tensor's name to its numbers. The file: 8 bytes with the length of a header in JSON, then numbers.
function tensorsOf(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = file.byteLength < 8 ? Infinity : Number(view.getBigUint64(0, true));
  if (!(8 + length < file.byteLength)) throw new Error(`the model file has ${file.byteLength} bytes and is not complete`);
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
  return (name) => {
    const { dtype, data_offsets: [begin, end] } = header[name] ?? { data_offsets: [0, 0] };
    if (dtype !== "BF16" || 8 + length + end > file.byteLength)
      throw new Error(`the model file must have ${name} in BF16${dtype === "BF16" ? ", and is cut off" : `, got ${dtype}`}`);
    const halves = new Uint16Array(file.slice(8 + length + begin, 8 + length + end).buffer);
    const bits = new Uint32Array(halves.length);
    for (let i = 0; i < bits.length; i += 1) bits[i] = halves[i] << 16; // BF16 is the upper half of a float
    return new Float32Array(bits.buffer);
  };
}

function joined(parts) {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
}

// Rows of zeros up to the next multiple of 4.
function padded(weight, k) {
  const whole = new Float32Array(4 * Math.ceil(weight.length / (4 * k)) * k);
  whole.set(weight);
  return whole;
}

LlamaModel;
