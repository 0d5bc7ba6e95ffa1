"""JupyterLab with a notebook of the course, as a learner sees it: light and dark."""

from pathlib import Path
from tempfile import TemporaryDirectory

from course.browser.chromium import headless_chromium
from tools.jupyter.screen import Screen, write_notebook
from tools.jupyter.server import copy_course, jupyterlab

CELLS = (
    "from course.notebook import Lab, watch\n"
    "from course.workloads.small_workload import make_workload\n\n"
    "lab = Lab(phase=5)\n"
    "watch(lab.play(make_workload(seed=0, num_requests=8)), step=6)",
)
NOTEBOOK = "notebooks/preemption.ipynb"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def screens() -> dict[str, bytes]:
    """Return a PNG per theme of the time machine in JupyterLab, with the preempted request followed."""
    with TemporaryDirectory() as folder, headless_chromium() as browser:
        course, home = copy_course(Path(folder, "labs")), Path(folder, "jupyter")
        write_notebook(course / NOTEBOOK, CELLS)
        with jupyterlab(course, home, lineup="solution") as server:
            screen = Screen(browser, server, width=960, height=1070, sharpness=1.15).open(NOTEBOOK).run_all()
            if failures := screen.failures():
                raise RuntimeError(f"a cell failed: {failures}")
            player = screen.page.locator(".mvw")
            player.locator('[data-about="request:3"] [data-request]').click()
            screen.page.mouse.move(0, 0)
            player.evaluate("(widget) => widget.blur()")
            screen.page.locator(".jp-Cell").first.evaluate("(cell) => cell.scrollIntoView({ block: 'start' })")
            taken = {}
            for name, theme in THEMES.items():
                screen.theme(theme)
                taken[f"jupyterlab_{name}"] = screen.page.screenshot()
            screen.close()
    return taken
