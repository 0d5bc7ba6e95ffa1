"""Measures how long a learner waits in the tab, the bytes that a visit loads, and the speed of chats.

Run it as `python -m mini_vllm_labs.upkeep.site.tab_timing [SITE]`.

Each figure is the median of five runs in a headless Chromium, each in a new profile. Run it on a quiet machine. Sizes
are measured after gzip compression at level 6, which is how static hosts send files.
"""

import contextlib
import gzip
import re
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.plan import load_plan
from mini_vllm_labs.pictures.browser.chromium import headless_chromium
from mini_vllm_labs.runs.starter_status import lab_folder
from mini_vllm_labs.upkeep.site.chat.speed import script

NOTEBOOK = "notebooks/01_scheduler_step.ipynb"
STARTER = "labs/phase1_scheduler_step/starter.py"
ROUNDS = 5
PHASES = range(1, 6)
AIMS = {
    "first visit, s": 20.0,
    "second visit, s": 12.0,
    "tests of phase 1, s": 4.0,
    "slider, ms": 50.0,
    "loaded, MB": 25.0,
}
SPEEDS = {"1 at once": 60.0, "8 at once": 200.0}
"""Minimum tokens per second of chats on the learner's engine."""
READY = """() => { const open = window.jupyterapp?.shell.currentWidget;
  return open?.context?.isReady && open.sessionContext?.session?.kernel?.status === "idle"; }"""
RUN = """async (code) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  let text = "";
  const future = kernel.requestExecute({ code });
  future.onIOPub = ({ content }) => {
    text += content.text ?? content.data?.["text/plain"] ?? (content.traceback ?? []).join("\\n");
  };
  await future.done;
  return text; }"""
EDIT = """async ([path, text]) => {
  const open = await window.jupyterapp.commands.execute("docmanager:open", { path });
  await open.context.ready;
  open.content.model.sharedModel.setSource(text);
  await open.context.save(); }"""
SLIDE = """async () => {
  const slider = document.querySelector("input[type=range]"), output = slider.closest(".jp-OutputArea-output");
  const began = performance.now(), changed = new Promise((done) => {
    new MutationObserver(done).observe(output, { subtree: true, childList: true, attributes: true });
  });
  slider.value = Number(slider.value) ? 0 : 1;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await changed;
  await new Promise(requestAnimationFrame);
  return performance.now() - began; }"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None: ...


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure(browser: Any, address: str, site: Path) -> dict[str, float]:
    """Measure the figures for one learner."""
    found: dict[str, float] = {}
    with contextlib.closing(browser.new_context()) as context:
        context.set_default_timeout(240_000)
        loaded: set[str] = set()
        context.on("requestfinished", lambda request: loaded.add(request.url.partition("?")[0]))
        for visit in ("first", "second"):
            page = context.new_page()
            began = perf_counter()
            page.goto(f"{address}/lab/lab/index.html?path={NOTEBOOK}")
            page.wait_for_function(READY)
            page.evaluate(RUN, "from mini_vllm_labs.notebook import Lab; lab = Lab(1); print(lab)")
            found[f"{visit} visit, s"] = perf_counter() - began
            found.setdefault("loaded, MB", sum(size(site, url.removeprefix(address)) for url in loaded) / 1e6)
            if visit == "first":
                page.close()
        for phase in PHASES:
            folder = lab_folder(phase)
            page.evaluate(EDIT, [f"labs/{folder}/starter.py", (CHECKOUT / f"solutions/{folder}.py").read_text("utf-8")])
        page.evaluate("(path) => window.jupyterapp.commands.execute('docmanager:open', { path })", NOTEBOOK)
        page.wait_for_function(READY)
        began = perf_counter()
        said = page.evaluate(RUN, "print(lab.test().text)")
        found["tests of phase 1, s"] = perf_counter() - began
        if f"{len(load_plan()[0].tests)} passed" not in said:
            raise ValueError(f"phase 1's tests did not pass in the tab:\n{said}")
        chats = page.evaluate(RUN, script("starter:1-5"))
        found.update((name, float(speed)) for name, speed in re.findall(r"(\d at once): (\d+) tokens/s", chats))
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.wait_for_selector("input[type=range]", state="attached")
        page.wait_for_function(READY)
        found["slider, ms"] = median(page.evaluate(SLIDE) for _ in range(9))
    return found


def size(site: Path, path: str) -> int:
    """Return the compressed size of a path in the site, in bytes, or 0 if it is not a file."""
    file = site / (path.lstrip("/") + ("index.html" if path.endswith("/") else ""))
    return len(gzip.compress(file.read_bytes(), 6)) if file.is_file() else 0


def main() -> None:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else CHECKOUT / "build/site")
    if not (site / "lab").is_dir():
        sys.exit(f"error: {site} has no lab: build the site with `make site`")
    with headless_chromium() as browser, served(site) as address:
        rounds = [measure(browser, address, site) for _ in range(ROUNDS)]
    for name, aim in AIMS.items():
        values = sorted(one[name] for one in rounds)
        print(f"{name:20} {median(values):6.1f}   ({values[0]:.1f} to {values[-1]:.1f}; aim {aim:g})")
    for name, aim in SPEEDS.items():
        values = sorted(one[name] for one in rounds)
        print(f"{name}, tokens/s  {median(values):6.0f}   ({values[0]:.0f} to {values[-1]:.0f}; aim at least {aim:g})")


if __name__ == "__main__":
    main()
