"""A learner's hour in a real JupyterLab: run all, keys, knobs, an edited starter, the dark theme."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import EngineConfig
from mini_vllm_labs.notebook import Lab
from mini_vllm_labs.notebook.panels import require_result
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.upkeep.jupyter.server import Screen
from tests.jupyter.conftest import Opener
from tests.views.svg_reader import texts, tree

REFERENCE = "%env LAB_IMPL=solution"
PLAYER = ".jp-OutputArea-output .mvw:not(.mvq)"


@pytest.fixture(scope="module")
def phase_1(opened: Opener) -> Screen:
    """Phase 1's notebook with the reference's code, after "run all cells", with its runs visible."""
    screen = opened(REFERENCE, notebook="01_scheduler_step.ipynb").run_all()
    screen.page.evaluate("document.querySelectorAll('[data-veil]').forEach((veil) => { veil.dataset.veil = 'open'; })")
    return screen


@pytest.fixture(scope="module")
def film() -> Film:
    """The pictures that Python draws of that notebook's run."""
    requests = [TimedRequest(0, name, [ord(name)] * 8, max_tokens=4, priority=0) for name in "ABC"]
    config = EngineConfig(max_num_seqs=4, max_num_batched_tokens=12, max_model_len=12, block_size=4, num_gpu_blocks=21)
    played = require_result(Lab(1, "solution").play(requests, config))
    return time_machine(played.recording)


@pytest.fixture
def player(phase_1: Screen) -> Any:
    """The first time machine of the notebook, at its first step."""
    widget = phase_1.page.locator(PLAYER).first
    widget.scroll_into_view_if_needed()
    widget.focus()
    widget.press("Home")
    return widget


def words_shown(player: Any) -> list[str]:
    """Return the texts in the picture that the browser shows, once there is one."""
    player.locator(".mvw-picture svg text").first.wait_for(state="attached")
    shown: list[str] = player.locator(".mvw-picture svg text").evaluate_all(
        "(all) => all.map((part) => part.textContent)"
    )
    return shown


def words_of(film: Film, step: int) -> list[list[str]]:
    drawings = (pictures[step] for pictures in (film.pictures, *film.also))
    return [texts(tree(replace(picture, legend={}))) for picture in drawings]


def test_all_cells_run_without_an_error_and_run_this_code(phase_1: Screen, course: Path, film: Film) -> None:
    assert phase_1.failures() == []
    assert phase_1.page.locator('[role="note"]').count() == 0, "no notice: the reference has all phases"
    assert words_shown(phase_1.page.locator(PLAYER).first) in words_of(film, 0)


def test_the_kernel_imports_the_course_that_is_open(opened: Opener, course: Path) -> None:
    screen = opened("import mini_vllm\nprint(mini_vllm.__file__)").run_all()
    assert Path(screen.outputs()[0][0]["text"].strip()).is_relative_to(course)


def test_keys_move_the_picture_to_their_step(player: Any, film: Film) -> None:
    """JupyterLab has its own shortcuts for these keys."""
    slider = player.get_by_role("slider", name="step")
    slider.focus()
    for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", len(film) - 1), ("Home", 0)):
        slider.press(key)
        assert words_shown(player) in words_of(film, step)


def test_the_theme_of_the_notebook_is_the_pictures_too(phase_1: Screen, player: Any, tmp_path: Path) -> None:
    shots, papers = [], []
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        phase_1.theme(theme)
        papers.append(
            player.locator(".mvw-picture svg > rect.mv-paper").evaluate("(paper) => getComputedStyle(paper).fill")
        )
        shots.append(phase_1.page.screenshot(path=tmp_path / f"{theme}.png"))
    darkness = [sum(map(int, re.findall(r"\d+", paper)[:3])) for paper in papers]
    assert darkness[0] < 200 < 600 < darkness[1], papers
    assert min(map(len, shots)) > 20_000, "a screen with a picture on it"


PANEL = """
from mini_vllm_labs.pictures.knobs import Slider
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.svg import text
from mini_vllm_labs.pictures.panels import Panel

def draw(budget):
    words = f"{budget} tokens a step"
    return Picture(words, 40, (Layer("words", text(10, 25, words)),), f"The budget is {budget}.", words)

panel = Panel([Slider("budget", "token budget", 64, 8, 128, step=8, unit="tokens")], draw)
panel
"""


def test_a_knob_asks_the_kernel_for_a_new_picture(opened: Opener) -> None:
    screen = opened(PANEL, "panel.values").run_all()
    panel = screen.page.locator(PLAYER)
    assert words_shown(panel) == ["64 tokens a step"]
    panel.get_by_role("slider", name="token budget").press("ArrowRight")
    screen.page.wait_for_function(
        "(panel) => panel.querySelector('svg text').textContent === '72 tokens a step'", arg=panel.element_handle()
    )
    assert screen.run_again(1).outputs()[1][0]["data"]["text/plain"] == "{'budget': 72}"


def test_a_panel_tells_of_a_busy_kernel_and_of_one_that_was_restarted(opened: Opener) -> None:
    screen = opened(PANEL, "import time\ntime.sleep(4 if 'ran' in globals() else 0)\nran = True").run_all()
    panel = screen.page.locator(PLAYER)
    assert words_shown(panel) == ["64 tokens a step"]
    screen.page.wait_for_function("(panel) => panel.dataset.answered", arg=panel.element_handle())
    waiting, knob = panel.locator(".mvw-waiting"), panel.get_by_role("slider", name="token budget")
    screen.page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    screen.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-cell'); }")
    knob.press("ArrowRight")
    waiting.get_by_text("Waiting for the kernel ...").wait_for()
    panel.locator("svg text", has_text="72 tokens a step").wait_for()
    assert waiting.text_content() == ""
    screen.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    knob.press("ArrowRight")
    waiting.get_by_text("run this cell again").wait_for()


def test_the_link_of_a_graded_test_opens_the_starter_at_its_line(opened: Opener, course: Path) -> None:
    starter = (course / "labs" / "phase1_scheduler_step" / "starter.py").read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(starter, start=1) if "Phase 1, task 1: clamp" in text)
    screen = opened("from mini_vllm_labs.notebook import Lab\nLab(phase=1).test(1)").run_all()
    screen.page.get_by_role("link", name=f"starter.py, line {line}").click()
    cursor = "window.jupyterapp.shell.currentWidget?.content?.editor?.getCursorPosition().line"
    screen.page.wait_for_function(f"() => {cursor} === {line - 1}")
    assert "starter.py" in screen.page.evaluate("window.jupyterapp.shell.currentWidget.context.path")
