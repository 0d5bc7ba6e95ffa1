// The picture of the calculator, in the notebook and in saved pages.

const MARGIN = 10, NARROW = 620, TWO_COLUMNS = 500, SHARE = 0.6, HIGH = 230, FACT_HEIGHT = 21, BAR_HEIGHT = 62, GAP = 20, LINE = 16;

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
  const isNarrow = width < NARROW, room = width - 2 * MARGIN, columns = isNarrow ? 2 : 3;
  const titles = wrap(title(capacity), room * (0.58 / 0.62), 15), y = 22 + LINE * titles.length, barY = y + 24;
  const roofY = barY + BAR_HEIGHT + 20 * Math.ceil(5 / columns) - 4;
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
