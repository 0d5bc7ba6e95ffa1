// The calculator in the page: the formulas of course/simulator/roofline.py and capacity.py, and the picture that
// drawing.py, memory_bar.py and roof.py draw. A test compares both over a grid of settings.

const GIB = 2 ** 30, TERA = 1e12;
const MARGIN = 10, NARROW = 620, TWO_COLUMNS = 500, SHARE = 0.6, HIGH = 230, FACT_HEIGHT = 21, BAR_HEIGHT = 62, GAP = 20, LINE = 16;

// ---- the limits of a setup

function capacityOf(setup, tables) {
  const gpu = tables.gpus[setup.gpu], shape = tables.shapes[setup.model];
  const { num_gpus: gpus, bytes_per_number: size, context_len: length, block_size } = setup;
  if (length > shape.max_model_len)
    throw Error(`context_len is ${whole(length)}, but ${shape.name} takes 1 to ${whole(shape.max_model_len)} tokens`);
  const weightBytes = shape.num_parameters * size, workspaceBytes = tables.workspace_bytes * gpus;
  const kvPerToken = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * size;
  const kvPerBlock = block_size * kvPerToken, memoryBytes = gpu.memory_bytes * gpus;
  const usableBytes = Math.floor(memoryBytes * setup.gpu_memory_utilization);
  const fitting = Math.floor((usableBytes - weightBytes - workspaceBytes) / kvPerBlock), numBlocks = fitting < 2 ? 0 : fitting;
  const problem = numBlocks ? "" : `${shape.name} does not fit ${gpus} x ${gpu.name}: its weights take ` +
    `${fixed(weightBytes / GIB, 1)} GiB, the workspace ${fixed(workspaceBytes / GIB, 1)}, and ` +
    `${fixed(usableBytes / GIB, 1)} GiB may be used (gpu_memory_utilization ${setup.gpu_memory_utilization}); ` +
    "take a larger GPU or more of them";
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
    setup, gpu, shape, problem, memoryBytes, usableBytes, weightBytes, workspaceBytes, kvPerToken, kvPerBlock, numBlocks,
    concurrency, batchSize, bandwidth, peak, ridge: peak / bandwidth, kvBytes: numBlocks * kvPerBlock,
    saturation: (size * gpu.peak_flops) / (2 * gpu.bandwidth), roomForTokens: Math.max(0, numBlocks - 1) * block_size,
    decode: decodeOf(batchSize), prefill: work(length, prefillFlops, bytesRead(1)), batches: tables.batches.map(decodeOf),
  };
}

// ---- figures as text

function fixed(value, digits) {
  const scaled = value * 10 ** digits, below = Math.floor(scaled);
  return scaled - below === 0.5 ? ((below + (below % 2)) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
}

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

function memoryParts({ memoryBytes, weightBytes, workspaceBytes, kvBytes }) {
  const rest = Math.max(0, memoryBytes - weightBytes - workspaceBytes - kvBytes);
  return [["weights", weightBytes], ["workspace", workspaceBytes], ["K and V", kvBytes], ["not used", rest]];
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

// ---- the picture

const safe = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const n = (value) => Number(value.toFixed(2));
const attributes = (all) => Object.entries(all).map(([name, value]) => ` ${name}="${safe(value)}"`).join("");
const text = (x, y, words, look = "") => `<text x="${n(x)}" y="${n(y)}" class="${look}">${safe(words)}</text>`;
const path = (data, all) => `<path d="${data}"${attributes(all)}/>`;
const line = (x1, y1, x2, y2, all) => path(`M${n(x1)} ${n(y1)}L${n(x2)} ${n(y2)}`, all);
const rect = (x, y, wide, high, all) =>
  `<rect x="${n(x)}" y="${n(y)}" width="${n(Math.max(0, wide))}" height="${high}"${attributes(all)}/>`;
const dot = ([x, y], fill) => `<circle cx="${n(x)}" cy="${n(y)}" r="6" fill="${fill}" class="mv-cased"/>`;
const layer = (name, x, y, ...parts) => `<g data-layer="${name}" transform="translate(${n(x)},${n(y)})">${parts.join("")}</g>`;

function wide(words, size, bold = false) {
  const widths = [...words].map((sign) => "mwMW@%—…".includes(sign) ? 0.95 : "iljtfrI.,:;'|!()[] ".includes(sign) ? 0.4
    : sign !== sign.toLowerCase() ? 0.72 : 0.64);
  return widths.reduce((sum, width) => sum + width, 0) * size * (bold ? 1.1 : 1);
}

function wrap(words, room, size) {
  const columns = Math.max(10, Math.floor(room / (size * 0.58))), lines = [];
  for (const word of words.split(" ").filter(Boolean))
    if (lines.length && lines.at(-1).length + 1 + word.length <= columns) lines.push(`${lines.pop()} ${word}`);
    else lines.push(word);
  return lines;
}

const paragraph = (x, y, lines, look) => lines.map((words, k) => text(x, y + LINE * k, words, look)).join("");

function logScale(values, start, end) {
  const round = (direction, near) => [0, direction].flatMap((by) => [1, 2, 5].map((step) => step * 10 ** (Math.floor(Math.log10(near)) + by)));
  const least = Math.min(...values), most = Math.max(...values);
  const low = Math.max(...round(-1, least).filter((value) => value <= least));
  const high = Math.min(...round(1, most).filter((value) => value > most));
  const place = (value) => start + (end - start) * Math.log10(Math.min(Math.max(value, low), high) / low) / Math.log10(high / low);
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const step of high <= 150 * low ? [1, 2, 5] : [1]) ticks.push(step * 10 ** power);
  return Object.assign(place, { low, end, ticks: ticks.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) });
}

const tickText = (value) => Number(value.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 });

function memoryBar(capacity, width, columns, colours) {
  const parts = memoryParts(capacity), used = parts.reduce((sum, [, size]) => sum + size, 0);
  const scale = width / Math.max(capacity.memoryBytes, used), drawn = [rect(0, 0, capacity.memoryBytes * scale, 34, { class: "mv-panel" })];
  let x = 0;
  parts.forEach(([name, size], k) => {
    if (colours[name])
      drawn.push(`<g><title>${name}: ${memory(size)}</title>${rect(x, 0, size * scale, 34, { fill: colours[name] })}</g>`);
    const step = Math.ceil(capacity.setup.context_len / capacity.setup.block_size) * capacity.kvPerBlock * scale;
    if (name === "K and V" && step >= 5)
      drawn.push(path(Array.from({ length: capacity.concurrency }, (_, i) => `M${n(x + (i + 1) * step)} 0v34`).join(""),
        { stroke: "#000", "stroke-opacity": 0.45, class: "notches" }));
    const left = (k % columns) * width / columns, y = 46 + 20 * Math.floor(k / columns);
    drawn.push(rect(left, y, 12, 12, colours[name] ? { rx: 2, fill: colours[name] } : { rx: 2, class: "mv-panel" }));
    drawn.push(text(left + 18, y + 10, `${name} ${memory(size)}`));
    x += size * scale;
  });
  const end = capacity.usableBytes * scale, share = limitText(capacity);
  drawn.push(line(end, -5, end, 39, { class: "mv-line", "stroke-width": 2 }));
  drawn.push(text(Math.min(Math.max(end, wide(share, 12)), width), -10, share, "mv-end"));
  if (capacity.problem) drawn.push(rect(0, 0, capacity.memoryBytes * scale, 34, { class: "mv-alert-line", "stroke-width": 2 }));
  return drawn;
}

function roof(capacity, at, tables) {
  const { decode, prefill, ridge, batches } = capacity, peak = capacity.peak / TERA;
  const across = logScale([...batches, decode, prefill].map((work) => work.intensity).concat(ridge), at.left, at.right);
  const lowest = across.low * capacity.bandwidth / TERA, up = logScale([0.4 * lowest, 1.8 * peak], at.bottom, at.top);
  const place = (work) => [across(work.intensity), up(work.flopRate / TERA)];
  const cloud = (all, look) => all.length ? path(all.map((work) => `M${place(work).map(n).join(" ")}h0`).join(""),
    { fill: "none", "stroke-width": 6, "stroke-linecap": "round", ...look }) : "";
  const rule = { class: "mv-rule", "stroke-opacity": 0.6 }, drawn = [
    text(MARGIN, 14, `Roofline: ${roofText(capacity)}`, "mv-strong"),
    text(MARGIN, 32, `dots: decode of 1, 2, 4 ... ${tables.batches.at(-1)} requests; coloured: they fit`, "mv-faint"),
    text(MARGIN, at.top - 9, "TFLOP/s", "mv-faint"),
    text((at.left + at.right) / 2, at.bottom + 30, "operations per byte read", "mv-faint mv-middle"),
  ];
  let taken = -Infinity;
  for (const value of across.ticks) {
    const half = wide(tickText(value), 12) / 2, middle = Math.min(across(value), across.end - half);
    drawn.push(line(across(value), at.top, across(value), at.bottom, rule));
    if (middle - half <= taken) continue;
    drawn.push(text(middle, at.bottom + 14, tickText(value), "mv-faint mv-middle"));
    taken = middle + half + 6;
  }
  drawn.push(line(at.left, at.bottom, at.right, at.bottom, { class: "mv-rule" }));
  for (const value of up.ticks)
    drawn.push(line(at.left, up(value), at.right, up(value), rule), text(at.left - 6, up(value) + 4, tickText(value), "mv-faint mv-end"));
  const [x, y] = place(prefill), [dx, dy] = place(decode);
  const prefillWords = `prefill ${perSecond(prefill)}`, decodeWords = `decode ${perSecond(decode)}`;
  const corner = `L${n(across(ridge))} ${n(up(peak))}L${n(at.right)} ${n(up(peak))}`;
  return [...drawn,
    line(across(ridge), up(peak), across(ridge), at.bottom, { class: "mv-ghost" }),
    path(`M${n(at.left)} ${n(up(lowest))}${corner}`, { fill: "none", class: "mv-line", "stroke-width": 2.5 }),
    cloud(batches, { class: "mv-rule" }),
    cloud(batches.filter((work) => work.numTokens <= capacity.concurrency), { stroke: tables.colours.decode }),
    dot([x, y], tables.colours.prefill), dot([dx, dy], tables.colours.decode),
    text(Math.max(x - 6, at.left + 4 + wide(prefillWords, 12, true)), y - 8, prefillWords, "mv-strong mv-cased mv-end"),
    text(Math.min(dx + 7, at.right - wide(decodeWords, 12, true)), dy + 20, decodeWords, "mv-strong mv-cased"),
  ];
}

function facts(capacity, width, columns) {
  const rows = table(capacity), each = Math.ceil(rows.length / columns), room = (width + GAP) / columns - GAP;
  const drawn = rows.map(([name, value], k) => {
    const x = Math.floor(k / each) * (room + GAP), y = 14 + (k % each) * FACT_HEIGHT;
    return text(x, y, name, "mv-faint") + text(x + room, y, value, "mv-strong mv-end") +
      line(x, y + 6, x + room, y + 6, { class: "mv-rule", "stroke-opacity": 0.6 });
  });
  return [drawn, 14 + each * FACT_HEIGHT];
}

function picture(capacity, width, tables) {
  const isNarrow = width < NARROW, room = width - 2 * MARGIN, columns = isNarrow ? 2 : 4;
  const titles = wrap(title(capacity), room * (0.58 / 0.62), 15), y = 22 + LINE * titles.length, barY = y + 24;
  const roofY = barY + BAR_HEIGHT + 20 * (4 / columns) - 4;
  const at = { left: 50, right: isNarrow ? width - MARGIN : SHARE * width, top: 64, bottom: 64 + (isNarrow ? HIGH - 60 : HIGH) };
  const [factsX, factsY] = isNarrow ? [MARGIN, roofY + at.bottom + 44] : [at.right + 26, roofY];
  const [figures, figuresHeight] = facts(capacity, width - MARGIN - factsX, isNarrow && width >= TWO_COLUMNS ? 2 : 1);
  const below = Math.max(factsY + figuresHeight, roofY + at.bottom + 44) + 6;
  const last = isNarrow && !capacity.problem ? [] : wrap(sentence(capacity), room, 12), height = n(below + LINE * last.length);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" class="mv" ` +
    `role="img" aria-label="${safe(`${title(capacity)}. ${sentence(capacity)}`)}"><title>${safe(title(capacity))}</title>` +
    `<desc>${safe(sentence(capacity))}</desc><style>${tables.css}</style>` + rect(0, 0, width, height, { class: "mv-paper" }) +
    layer("headline", 0, 0, paragraph(MARGIN, 22, titles, "mv-title")) +
    layer("memory", MARGIN, barY, ...memoryBar(capacity, room, columns, tables.colours)) +
    layer("roofline", 0, roofY, ...roof(capacity, at, tables)) + layer("facts", factsX, factsY, ...figures) +
    layer("sentence", 0, 0, paragraph(MARGIN, below, last, capacity.problem ? "mv-alert" : "")) + "</svg>";
}

export function draw({ ticket, values, width }, tables) {
  try {
    const capacity = capacityOf(values, tables);
    return { ticket, width, svg: picture(capacity, width, tables), sentence: sentence(capacity), text_alternative: textAlternative(capacity) };
  } catch (error) {
    return { ticket, error: error.message };
  }
}
