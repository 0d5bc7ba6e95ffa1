// What a setup can hold and how fast it can be, as figures: the formulas of mini_vllm_labs/simulation/roofline.py and capacity.py.

const GIB = 2 ** 30, TERA = 1e12;

export function capacityOf(setup, tables) {
  const gpu = tables.gpus[setup.gpu], shape = tables.shapes[setup.model];
  const { num_gpus: gpus, bytes_per_number: size, context_len: length, block_size } = setup;
  if (length > shape.max_model_len)
    throw Error(`context_len is ${whole(length)}, but ${shape.name} accepts 1 to ${whole(shape.max_model_len)} tokens`);
  const weightBytes = shape.num_parameters * size, workspaceBytes = tables.workspace_bytes * gpus;
  const activationBytes = 2 * setup.max_num_batched_tokens * (2 * gpus * shape.hidden_size + 3 * shape.intermediate_size);
  const kvPerToken = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * size;
  const kvPerBlock = block_size * kvPerToken, memoryBytes = gpu.memory_bytes * gpus;
  const usableBytes = Math.floor(memoryBytes * setup.gpu_memory_utilization);
  const fitting = Math.floor((usableBytes - weightBytes - activationBytes - workspaceBytes) / kvPerBlock);
  const numBlocks = fitting < 2 ? 0 : fitting;
  const problem = numBlocks ? "" : `${shape.name} does not fit on ${gpus} x ${gpu.name}: its weights take ` +
    `${fixed(weightBytes / GIB, 1)} GiB, the activations take ${fixed(activationBytes / GIB, 1)}, ` +
    `the workspace takes ${fixed(workspaceBytes / GIB, 1)}, and only ` +
    `${fixed(usableBytes / GIB, 1)} GiB may be used (gpu_memory_utilization ${setup.gpu_memory_utilization}). ` +
    "Choose a larger GPU or use more of them";
  const concurrency = numBlocks ? Math.floor((numBlocks - 1) / Math.ceil(length / block_size)) : 0;
  const batchSize = Math.max(1, Math.min(setup.max_num_seqs, concurrency));
  const bandwidth = gpu.bandwidth * gpus, peak = gpu.peak_flops * gpus;
  const perPair = 4 * shape.num_layers * shape.num_heads * shape.head_dim;
  const matrices = 2 * shape.num_matrix_parameters, head = 2 * shape.num_embedding_parameters;
  const work = (numTokens, flops, numBytes) => {
    const seconds = Math.max(numBytes / bandwidth, flops / peak);
    return { numTokens, seconds, intensity: flops / numBytes, flopRate: flops / seconds, perSecond: numTokens / seconds, numBytes };
  };
  const bytesRead = (batch) => shape.num_parameters_read * size + batch * length * kvPerToken;
  const decodeOf = (batch) => work(batch, batch * (matrices + perPair * length + head), bytesRead(batch));
  const prefillFlops = matrices * length + perPair * (length * (length + 1) / 2) + head;
  return {
    setup, gpu, shape, problem, memoryBytes, usableBytes, weightBytes, activationBytes, workspaceBytes, kvPerToken, kvPerBlock, numBlocks,
    concurrency, batchSize, bandwidth, peak, ridge: peak / bandwidth, kvBytes: numBlocks * kvPerBlock,
    saturation: (size * gpu.peak_flops) / (2 * gpu.bandwidth), roomForTokens: Math.max(0, numBlocks - 1) * block_size,
    decode: decodeOf(batchSize), prefill: work(length, prefillFlops, bytesRead(1)), batches: tables.batches.map(decodeOf),
  };
}

// ---- figures as text

const fixed = (value, digits) => value.toFixed(digits);
const whole = (value) => Number(fixed(value, 0)).toLocaleString("en");
const counted = (number, thing) => `${whole(number)} ${thing}${number === 1 ? "" : "s"}`;
const perSecond = (work) => `${digits(work.perSecond)} tokens/s`;

function digits(value) {
  if (value >= 999_999.5) return `${digits(value / 1e6)} M`;
  if (value >= 99.95) return whole(value);
  return fixed(value, value >= 9.995 ? 1 : 2);
}

function seconds(value) {
  if (value < 0.9995e-3) return `${digits(value * 1e6)} µs`;
  return value >= 0.9995 ? `${digits(value)} s` : `${digits(value * 1e3)} ms`;
}

function memory(bytes) {
  for (const [unit, size] of [["GiB", GIB], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (bytes >= size) return `${digits(bytes / size)} ${unit}`;
  return `${whole(bytes)} B`;
}

function title({ setup, shape, gpu }) {
  const gpus = setup.num_gpus > 1 ? `${setup.num_gpus} x ${gpu.name}` : gpu.name;
  return `${shape.name} with ${8 * setup.bytes_per_number}-bit numbers on ${gpus}`;
}

function sentence(capacity) {
  const { problem, setup, decode, concurrency } = capacity, context = `${whole(setup.context_len)} tokens`;
  if (problem) return `${problem[0].toUpperCase()}${problem.slice(1)}.`;
  if (!concurrency) return `No request of ${context} fits: there is room for K and V of ${whole(capacity.roomForTokens)} tokens.`;
  const weights = capacity.shape.num_parameters_read * setup.bytes_per_number;
  const limit = concurrency < setup.max_num_seqs ? "memory" : `max_num_seqs, ${setup.max_num_seqs}`;
  const pace = decode.intensity < capacity.ridge ? "bandwidth" : "arithmetic";
  return `Room for ${counted(concurrency, "request")} of ${context}; limit of the batch: ${limit}. A decode step of ` +
    `${counted(capacity.batchSize, "request")} reads ${memory(weights)} of weights and ` +
    `${memory(decode.numBytes - weights)} of K and V; limit of its speed: ${pace}, at ${digits(decode.intensity)} ` +
    `operations per byte (ridge: ${digits(capacity.ridge)}).`;
}

function memoryParts({ memoryBytes, weightBytes, activationBytes, workspaceBytes, kvBytes }) {
  const rest = Math.max(0, memoryBytes - weightBytes - activationBytes - workspaceBytes - kvBytes);
  return [["weights", weightBytes], ["activations", activationBytes], ["workspace", workspaceBytes], ["K and V", kvBytes],
    ["not used", rest]];
}

function table(capacity) {
  const { setup, decode, prefill } = capacity;
  return [
    ["K and V per token", memory(capacity.kvPerToken)],
    [`per block of ${setup.block_size}`, memory(capacity.kvPerBlock)],
    ["blocks", whole(capacity.numBlocks)],
    ["tokens of K and V", whole(capacity.roomForTokens)],
    [`requests of ${whole(setup.context_len)} tokens`, whole(capacity.concurrency)],
    ["saturation batch", `${digits(capacity.saturation)} tokens`],
    ["decode batch", counted(capacity.batchSize, "request") + (capacity.concurrency ? "" : ", if it fit")],
    ["its step, at least", seconds(decode.seconds)],
    ["decode, at most", perSecond(decode)],
    ["each output", `${digits(1 / decode.seconds)} tokens/s`],
    [`prefill of ${whole(prefill.numTokens)}, at least`, seconds(prefill.seconds)],
    ["prefill, at most", perSecond(prefill)],
  ];
}

const limitText = ({ setup, usableBytes }) =>
  `gpu_memory_utilization ${fixed(setup.gpu_memory_utilization, 2)} = ${memory(usableBytes)}`;
const roofText = ({ bandwidth, peak, ridge }) =>
  `${digits(bandwidth / TERA)} TB/s, ${digits(peak / TERA)} TFLOP/s, ridge at ${digits(ridge)}`;

function textAlternative(capacity) {
  const point = (work) => `${digits(work.intensity)} operations per byte, ${digits(work.flopRate / TERA)} TFLOP/s`;
  const uses = memoryParts(capacity).map(([name, size]) => `${name} ${memory(size)}`).join(", ");
  const lines = [
    [`memory ${memory(capacity.memoryBytes)}`, `${uses}; ${limitText(capacity)}`], ...table(capacity),
    ["roofline", roofText(capacity)], ["decode", point(capacity.decode)], ["prefill", point(capacity.prefill)],
  ];
  return [title(capacity), ...lines.map(([name, value]) => `${name}: ${value}`), sentence(capacity)].join("\n");
}
