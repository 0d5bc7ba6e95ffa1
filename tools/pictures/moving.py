"""A short film for the README: blocks and requests on their way, as the player moves them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.browser.bare_page import open_widget
from course.browser.chromium import headless_chromium
from course.traces.recording import Recording
from course.views.show import player
from course.views.time_machine import time_machine
from tools.pictures.animated_gif import animated_gif
from tools.pictures.views import RECORDED

STEPS = range(3, 12)
NUM_MOMENTS, MOMENT, READING = 6, 42, 1400
SHARPNESS = 1.25
MOMENTS = Path(__file__).with_name("moments.js").read_text(encoding="utf-8")


def moving_pictures() -> dict[str, bytes]:
    """Return the film on light and on dark paper."""
    with headless_chromium() as browser:
        return {f"film_{name}.gif": film(browser, dark=name == "dark") for name in ("light", "dark")}


def film(browser: Any, *, dark: bool) -> bytes:
    """Return some steps of the recorded run, the preemption among them."""
    shown = player(time_machine(Recording.read(RECORDED)), step=STEPS[0])
    page = open_widget(browser, shown, dark=dark, sharpness=SHARPNESS)
    made = animated_gif(browser, screenshots(page))
    page.close()
    return made


def screenshots(page: Any) -> Iterator[tuple[bytes, int]]:
    """Yield the picture at every moment of the motion, then long enough to read it."""
    picture = page.locator(".mvw-picture svg")
    for step in STEPS:
        page.evaluate("(step) => model.set('step', step)", step)
        page.evaluate(MOMENTS, [MOMENT * place for place in range(1, NUM_MOMENTS)])
        for moment in range(NUM_MOMENTS - 1 if step > STEPS[0] else 0):
            page.evaluate("(moment) => hold(moment)", moment)
            yield picture.screenshot(), MOMENT
        page.evaluate("() => hold()")
        yield picture.screenshot(), READING
