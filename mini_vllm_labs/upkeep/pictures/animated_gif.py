"""Makes the README's film, an animated GIF of screenshots that stores only changes, with 255 colours per frame."""

import base64
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.browser.chromium import headless_chromium
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.upkeep.pictures.views import RECORDED

TRANSPARENT, CLEAR, END, MAX_CODES = 255, 256, 257, 4096

CHANGED = Path(__file__).with_name("changed.js").read_text(encoding="utf-8")
STEPS = range(3, 12)
NUM_MOMENTS, MOMENT, READING = 6, 42, 1400
SHARPNESS = 1.25
MOMENTS = Path(__file__).with_name("moments.js").read_text(encoding="utf-8")


def animated_gif(browser: Any, screenshots: Iterable[tuple[bytes, int]]) -> bytes:
    """Return an animation that repeats forever. `screenshots` yields PNGs of the same size with their durations in
    milliseconds.

    A screenshot without changes extends the previous frame.
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
    """Encode part of the picture as a frame that is drawn over the previous one and stays."""
    control = struct.pack("<BBBBHBB", 0x21, 0xF9, 4, 0x05, round(milliseconds / 10), TRANSPARENT, 0)
    place = struct.pack("<BHHHHB", 0x2C, *(part[name] for name in ("x", "y", "width", "height")), 0x87)
    colours, pixels = (base64.b64decode(part[name]) for name in ("colours", "pixels"))
    data = compressed(pixels)
    blocks = b"".join(counted(data[at : at + 255]) for at in range(0, len(data), 255))
    return control + place + colours.ljust(768, b"\0") + b"\x08" + blocks + b"\0"


def counted(data: bytes) -> bytes:
    """Return up to 255 bytes, preceded by their count."""
    return bytes([len(data)]) + data


def compressed(pixels: bytes) -> bytes:
    """Return the LZW code of eight-bit pixels."""
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
    """Yield the code for each longest known run of pixels, with its number of bits."""
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


def moving_pictures() -> dict[str, bytes]:
    """Return the film in the light and the dark theme."""
    with headless_chromium() as browser:
        return {f"film_{name}.gif": film(browser, dark=name == "dark") for name in ("light", "dark")}


def film(browser: Any, *, dark: bool) -> bytes:
    """Return a film of some steps of the recorded run, including the preemption."""
    shown = player(time_machine(Recording.read(RECORDED)), step=STEPS[0])
    page = open_widget(browser, shown, dark=dark, sharpness=SHARPNESS)
    made = animated_gif(browser, screenshots(page))
    page.close()
    return made


def screenshots(page: Any) -> Iterator[tuple[bytes, int]]:
    """Yield the picture at each moment of a motion, then the still picture, held long enough to be read."""
    picture = page.locator(".mvw-picture svg")
    for step in STEPS:
        page.evaluate("(step) => model.set('step', step)", step)
        page.evaluate(MOMENTS, [MOMENT * place for place in range(1, NUM_MOMENTS)])
        for moment in range(NUM_MOMENTS - 1 if step > STEPS[0] else 0):
            page.evaluate("(moment) => hold(moment)", moment)
            yield picture.screenshot(), MOMENT
        page.evaluate("() => hold()")
        yield picture.screenshot(), READING
