"""A learner's way through the lab in a browser: edit, test, move a slider, reload, export, judge, import."""

import contextlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.upkeep.site.tab_timing import EDIT, NOTEBOOK, READY, RUN, STARTER, served

WAIT = 240_000
READ = "async (path) => (await window.jupyterapp.serviceManager.contents.get(path, { content: true })).content"
TALK = "from mini_vllm_labs.notebook import Lab; Lab(1).talk('What is the capital of Norway?')"
SLIDE = """async () => {
  const slider = document.querySelector("input[type=range]"), output = slider.closest(".jp-OutputArea-output");
  const before = output.innerHTML;
  slider.value = 1;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise((done) => setTimeout(done, 300));
  return before !== output.innerHTML; }"""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with served(site) as found:
        yield found


def open_notebook(page: Any, address: str) -> None:
    page.goto(f"{address}/lab/lab/index.html?path={NOTEBOOK}")
    page.wait_for_function(READY, timeout=WAIT)


def command(page: Any, name: str, **arguments: str) -> None:
    page.evaluate(
        "async ([name, given]) => { await window.jupyterapp.commands.execute(name, given); }", [name, arguments]
    )


def num_tests_of_phase_1() -> int:
    """Return how many graded tests pytest finds in the checkout, because the tab runs all of them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "labs/phase1_scheduler_step"]
    done = subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.count("::")


@pytest.mark.timeout(1200)
def test_a_learners_way(browser: Any, address: str, tmp_path: Path) -> None:
    strangers: list[str] = []
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    context.set_default_timeout(WAIT)
    with contextlib.closing(context):
        context.on("request", lambda request: strangers.append(request.url))
        page = context.new_page()
        open_notebook(page, address)
        assert "Next is Phase 1, task 1: clamp" in page.evaluate(
            RUN, "from mini_vllm_labs.notebook import Lab; print(Lab(1))"
        )

        # Edit a file, run a test, move a slider.
        solution = (CHECKOUT / "solutions/phase1_scheduler_step.py").read_text("utf-8")
        page.evaluate(EDIT, [STARTER, solution])
        command(page, "docmanager:open", path=NOTEBOOK)
        page.wait_for_function(READY)
        report = page.evaluate(RUN, "from mini_vllm_labs.notebook import Lab; print(Lab(1).test().text)")
        assert re.search(rf"^{num_tests_of_phase_1()} passed in", report, re.MULTILINE), report
        assert "Oslo" in page.evaluate(RUN, TALK)
        command(page, "notebook:run-all-cells")
        page.wait_for_selector("input[type=range]", state="attached")
        assert page.evaluate(SLIDE)

        # A second tab on the same work stops and shows a message.
        second = context.new_page()
        second.goto(f"{address}/lab/lab/index.html", wait_until="commit")
        second.wait_for_selector("#mini-vllm-stop")
        assert "open in another tab" in second.inner_text("#mini-vllm-stop")
        second.close()

        # Reload the page, export the work, judge it.
        open_notebook(page, address)
        assert page.evaluate(READ, STARTER) == solution
        with page.expect_download() as download:
            page.get_by_text("Export my work").click()
        work = tmp_path / "my_work.zip"
        download.value.save_as(work)
        assert zipfile.ZipFile(work).read(STARTER).decode() == solution
        judged = subprocess.run(
            [sys.executable, "-m", "mini_vllm_labs.cli", "judge", str(work), "--phase", "1", "--no-jail"],
            cwd=CHECKOUT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert judged.returncode == 0, judged.stdout + judged.stderr

        # Import a zip: an invalid one changes nothing; a valid one keeps a copy of whatever it replaces.
        imported = page.locator("#mini-vllm-bar input[type=file]")
        wrong = tmp_path / "wrong.zip"
        wrong.write_bytes(b"no zip at all")
        imported.set_input_files(wrong)
        page.get_by_text("was not imported, nothing was changed: it is no zip").wait_for()
        assert page.evaluate(READ, STARTER) == solution
        with zipfile.ZipFile(wrong, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(STARTER, "# another day\n")
        imported.set_input_files(wrong)
        page.get_by_text("Imported 1 files").wait_for()
        assert page.evaluate(READ, STARTER) == "# another day\n"
        (folder,) = page.evaluate(READ, "kept")
        assert page.evaluate(READ, f"{folder['path']}/{STARTER}") == solution
    assert [url for url in strangers if not url.startswith((address, "data:", "blob:"))] == []


def test_without_webassembly_the_page_says_what_to_do(browser: Any, address: str) -> None:
    with contextlib.closing(browser.new_context()) as context:
        context.add_init_script("delete window.WebAssembly")
        page = context.new_page()
        page.goto(f"{address}/lab/lab/index.html", wait_until="commit")
        assert "needs WebAssembly" in page.inner_text("#mini-vllm-stop")


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        ("delete HTMLScriptElement.prototype.noModule", "needs a browser of 2023"),
        ("delete window.DecompressionStream", "needs features that came in 2023"),
        ("delete Navigator.prototype.locks", "needs features that came in 2023"),
    ],
)
def test_an_old_browser_is_told_what_to_take(browser: Any, address: str, lack: str, words: str) -> None:
    with contextlib.closing(browser.new_context()) as context:
        context.add_init_script(lack)
        page = context.new_page()
        page.goto(f"{address}/lab/lab/index.html", wait_until="commit")
        page.get_by_role("alert").wait_for()
        assert words in page.inner_text("[role=alert]")


def test_without_storage_the_page_warns(browser: Any, address: str) -> None:
    with contextlib.closing(browser.new_context()) as context:
        context.add_init_script("IDBFactory.prototype.open = () => { throw new Error('none'); }")
        page = context.new_page()
        page.goto(f"{address}/lab/lab/index.html", wait_until="commit")
        assert "keeps nothing" in page.inner_text("#mini-vllm-notice")


def test_an_update_of_the_site_keeps_what_was_edited(browser: Any, address: str, site: Path) -> None:
    other = "labs/phase2_block_pool/starter.py"
    served = site / "lab/files" / other
    old = served.read_text("utf-8")
    with contextlib.closing(browser.new_context()) as context:
        context.set_default_timeout(WAIT)
        page = context.new_page()
        open_notebook(page, address)
        page.evaluate(EDIT, [STARTER, "# mine\n"])
        try:
            served.write_text(f"{old}# new\n", "utf-8")
            page.reload()
            page.wait_for_function("() => window.jupyterapp?.serviceManager.contents && window.miniVLLM")
            work = json.loads(json.dumps(page.evaluate("() => window.miniVLLM.work()")))
        finally:
            served.write_text(old, "utf-8")
    assert work[STARTER] == "# mine\n"
    assert work[other].endswith("# new\n")
