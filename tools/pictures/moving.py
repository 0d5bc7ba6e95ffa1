"""A short film for the README: blocks and requests on their way, as the player moves them."""

from collections.abc import Iterator
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
# Turns all motion into the styles of its moments, because the browser draws text a little differently while it moves
# something. `hold` shows a moment; at the last one everything has arrived.
MOMENTS = """(times) => { const motions = document.getAnimations();
  const moments = times.map((time) => motions.map((motion) => {
    motion.pause();
    motion.currentTime = time;
    const { target } = motion.effect, { translate, opacity } = getComputedStyle(target);
    return [target, { translate, opacity }];
  }));
  for (const motion of motions) motion.cancel();
  const arrived = motions.map(({ effect }) => [effect.target, { translate: "", opacity: "" }]);
  window.hold = (at) => { for (const [target, style] of moments[at] ?? arrived) Object.assign(target.style, style); };
}"""


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
