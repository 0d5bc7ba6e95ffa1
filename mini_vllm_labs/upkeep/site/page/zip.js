// Zips for the browser: written without compression, read with the browser's own inflate. Enough for a learner's work.
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});
const MAX_BYTES = 20_000_000;

export function crc32(bytes) {
  let sum = ~0;
  for (const byte of bytes) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

/** Return a zip of { path: text } as bytes. */
export function zipped(files) {
  const encoder = new TextEncoder(), parts = [], directory = [];
  let offset = 0;
  const record = (size, values) => {
    const view = new DataView(new ArrayBuffer(size));
    for (const [place, bytes, value] of values) view[bytes === 4 ? "setUint32" : "setUint16"](place, value, true);
    return new Uint8Array(view.buffer);
  };
  for (const [path, text] of Object.entries(files)) {
    const name = encoder.encode(path), data = encoder.encode(text), sum = crc32(data), utf8 = 0x800, date = 0x21;
    const local = record(30, [[0, 4, 0x04034b50], [4, 2, 20], [6, 2, utf8], [12, 2, date], [14, 4, sum],
      [18, 4, data.length], [22, 4, data.length], [26, 2, name.length]]);
    directory.push(record(46, [[0, 4, 0x02014b50], [4, 2, 20], [6, 2, 20], [8, 2, utf8], [14, 2, date], [16, 4, sum],
      [20, 4, data.length], [24, 4, data.length], [28, 2, name.length], [42, 4, offset]]), name);
    parts.push(local, name, data);
    offset += 30 + name.length + data.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0), count = directory.length / 2;
  const end = record(22, [[0, 4, 0x06054b50], [8, 2, count], [10, 2, count], [12, 4, size], [16, 4, offset]]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}

/** Return { path: text } of a zip's files for which `wanted(path)`. Throws an Error with words if it cannot be read. */
export async function unzipped(buffer, wanted) {
  const view = new DataView(buffer), files = {};
  let end = view.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new Error("it is no zip, or it is cut short");
  let place = view.getUint32(end + 16, true), total = 0;
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    if (place + 46 > view.byteLength || view.getUint32(place, true) !== 0x02014b50) throw new Error("its list of files is damaged");
    const method = view.getUint16(place + 10, true), packed = view.getUint32(place + 20, true);
    const size = view.getUint32(place + 24, true), length = view.getUint16(place + 28, true);
    const path = new TextDecoder().decode(new Uint8Array(buffer, place + 46, length));
    const local = view.getUint32(place + 42, true);
    const sum = view.getUint32(place + 16, true);
    place += 46 + length + view.getUint16(place + 30, true) + view.getUint16(place + 32, true);
    if (!wanted(path)) continue;
    if ((total += size) > MAX_BYTES) throw new Error("its files are larger than 20 MB");
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    files[path] = await textOf(new Uint8Array(buffer, start, packed), method, size, sum, path);
  }
  return files;
}

async function textOf(packed, method, size, sum, path) {
  if (method !== 0 && method !== 8) throw new Error(`${path} is packed in a way that browsers cannot read`);
  let bytes = packed;
  if (method === 8) {
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const chunks = [];
    let length = 0;
    for (const reader = unpacked.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      if ((length += value.length) > size) throw new Error(`${path} is larger than the zip says`);
      chunks.push(value);
    }
    bytes = new Uint8Array(await new Blob(chunks).arrayBuffer());
  }
  if (bytes.length !== size || crc32(bytes) !== sum) throw new Error(`${path} is damaged`);
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}
