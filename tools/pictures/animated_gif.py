"""Screenshots as an animated GIF that holds only what changes, in at most 255 colours a frame."""

import base64
import struct
from collections.abc import Iterable, Iterator
from typing import Any

TRANSPARENT, CLEAR, END, MAX_CODES = 255, 256, 257, 4096

# Returns what differs from the last screenshot, or null: its place, its colours, and a colour number for each pixel.
# What is the same is transparent. Rare colours, the edges of letters, take the most similar of the frequent ones.
CHANGED = """async (screenshot) => { const image = new Image();
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
    pixels: base64(pixels) }; }"""


def animated_gif(browser: Any, screenshots: Iterable[tuple[bytes, int]]) -> bytes:
    """Return an animation that repeats for ever. `screenshots` are PNGs of one size with their milliseconds.

    One without a change prolongs the frame before it.
    """
    page, frames = browser.new_page(), list[tuple[dict[str, Any], int]]()
    for png, milliseconds in screenshots:
        changed = page.evaluate(CHANGED, base64.b64encode(png).decode())
        if changed is None and frames:
            changed, before = frames.pop()
            milliseconds += before
        frames.append((changed, milliseconds))
    page.close()
    first, _ = frames[0]
    head = b"GIF89a" + struct.pack("<HHBBB", first["width"], first["height"], 0x70, 0, 0)
    for_ever = b"\x21\xff" + counted(b"NETSCAPE2.0") + counted(b"\x01\0\0") + b"\0"
    return head + for_ever + b"".join(frame_of(*frame) for frame in frames) + b"\x3b"


def frame_of(part: dict[str, Any], milliseconds: int) -> bytes:
    """Return a part of the picture as it is stored in the file: laid over the last one, and left there."""
    control = struct.pack("<BBBBHBB", 0x21, 0xF9, 4, 0x05, round(milliseconds / 10), TRANSPARENT, 0)
    place = struct.pack("<BHHHHB", 0x2C, *(part[name] for name in ("x", "y", "width", "height")), 0x87)
    colours, pixels = (base64.b64decode(part[name]) for name in ("colours", "pixels"))
    data = compressed(pixels)
    blocks = b"".join(counted(data[at : at + 255]) for at in range(0, len(data), 255))
    return control + place + colours.ljust(768, b"\0") + b"\x08" + blocks + b"\0"


def counted(data: bytes) -> bytes:
    """Return at most 255 bytes after their number."""
    return bytes([len(data)]) + data


def compressed(pixels: bytes) -> bytes:
    """Return the LZW code of pixels of eight bits."""
    stream, held, num_held = bytearray(), 0, 0
    for code, num_bits in codes(pixels):
        held |= code << num_held
        num_held += num_bits
        while num_held >= 8:
            stream.append(held & 255)
            held >>= 8
            num_held -= 8
    return bytes(stream) + bytes([held & 255])


def codes(pixels: bytes) -> Iterator[tuple[int, int]]:
    """Yield the codes of the longest known runs of pixels, each with its number of bits."""
    known = dict[tuple[int, int], int]()
    run, num_bits = pixels[0], 9
    yield CLEAR, num_bits
    for pixel in pixels[1:]:
        if (longer := known.get((run, pixel))) is not None:
            run = longer
            continue
        yield run, num_bits
        new = END + 1 + len(known)
        if new < MAX_CODES:
            known[run, pixel] = new
            num_bits += new == 1 << num_bits
        else:
            yield CLEAR, num_bits
            known, num_bits = {}, 9
        run = pixel
    yield run, num_bits
    yield END, num_bits
