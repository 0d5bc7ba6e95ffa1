// Returns what differs from the last screenshot, or null: its place, its colours, and a colour number for each pixel.
// What is the same is transparent. Rare colours, the edges of letters, take the most similar of the frequent ones.
async (screenshot) => { const image = new Image();
  image.src = "data:image/png;base64," + screenshot;
  await image.decode();
  const { width, height } = image;
  const drawn = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
  drawn.drawImage(image, 0, 0);
  const now = new Uint32Array(drawn.getImageData(0, 0, width, height).data.buffer);
  const before = window.before ?? new Uint32Array(now.length), often = new Map();
  window.before = now;
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let at = 0; at < now.length; at++) if (now[at] !== before[at]) {
    const x = at % width, y = (at - x) / width;
    left = Math.min(left, x); right = Math.max(right, x + 1); top = Math.min(top, y); bottom = Math.max(bottom, y + 1);
    often.set(now[at], (often.get(now[at]) ?? 0) + 1);
  }
  if (right <= left) return null;
  const colours = [...often.keys()].sort((one, other) => often.get(other) - often.get(one)).slice(0, 255);
  const numbers = new Map(colours.map((colour, number) => [colour, number]));
  const parts = (colour) => [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  const apart = (one, other) => parts(one).reduce((sum, part, i) => sum + (part - parts(other)[i]) ** 2, 0);
  for (const colour of often.keys()) if (!numbers.has(colour)) {
    const distances = colours.map((other) => apart(colour, other));
    numbers.set(colour, distances.indexOf(Math.min(...distances)));
  }
  const pixels = [];
  for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) {
    const at = y * width + x;
    pixels.push(now[at] === before[at] ? 255 : numbers.get(now[at]));
  }
  const base64 = (bytes) => { let text = ""; for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text); };
  return { x: left, y: top, width: right - left, height: bottom - top, colours: base64(colours.flatMap(parts)),
    pixels: base64(pixels) }; }
