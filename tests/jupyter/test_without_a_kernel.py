"""Widgets without a kernel: in an exported page without a network, and in a notebook that is reopened."""

from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Pages
from tests.jupyter.conftest import Opener, exported
from tests.notebook.files import read, write

CELLS = """
from mini_vllm_labs.notebook import Lab, watch
from mini_vllm_labs.runs.workloads.small_workload import make_workload

watch(Lab(phase=3, lineup="solution").play(make_workload(1, 4)), step=5)
"""
PICTURE = 'img[src^="data:image/svg+xml"]'
SERIOUS = """async () => (await axe.run(document)).violations
  .filter((found) => ["serious", "critical"].includes(found.impact))
  .map((found) => [found.id, ...found.nodes.slice(0, 3).map((node) => node.html.slice(0, 90))])"""
TRUSTED = "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(0).trusted"
# Returns whether an image has loaded, what its text is, and how many different colours it contains.
SEEN = """async (image) => { await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 720, height: 500 });
  const drawn = canvas.getContext("2d");
  drawn.drawImage(image, 0, 0);
  const pixels = new Uint32Array(drawn.getImageData(0, 0, 720, 500).data.buffer);
  return { alt: image.alt, width: image.getBoundingClientRect().width, colours: new Set(pixels).size }; }"""


@pytest.fixture(scope="module")
def saved(opened: Opener, course: Path) -> Path:
    screen = opened(CELLS).run_all()
    assert screen.failures() == []
    screen.command("docmanager:save")
    return course / screen.path


@pytest.fixture
def changed(saved: Path, tmp_path: Path) -> Path:
    """The saved notebook, changed by another user so that its signature is no longer valid."""
    notebook = read(saved)
    notebook.cells[0].source += "\n# from another user"
    write(notebook, tmp_path / "changed.ipynb")
    return tmp_path / "changed.ipynb"


def assert_a_film_from_step_5(page: Any) -> None:
    player = page.locator(".mvw:has(svg)")
    player.wait_for()
    assert player.get_attribute("data-step") == "5"
    slider = player.get_by_role("slider", name="step")
    slider.press("Home")
    slider.press("ArrowRight")
    assert player.locator('[data-layer="headline"] text').first.text_content().startswith("step 1 of")
    assert page.locator(PICTURE).count() == 0


def assert_a_picture_of_step_5(page: Any) -> None:
    assert page.locator(PICTURE).count() == 1
    seen = page.locator(PICTURE).first.evaluate(SEEN)
    assert "step 5" in seen["alt"]
    assert seen["width"] > 500
    assert seen["colours"] > 8, "not blank"


@pytest.mark.parametrize("template", ["lab", "classic", "basic", "page"])
def test_an_exported_page_plays_its_films_offline_and_without_scripts_shows_its_pictures(
    saved: Path, offline: Any, without_scripts: Any, tmp_path: Path, template: str
) -> None:
    address = exported(saved, tmp_path, template)
    offline.goto(address, wait_until="commit")
    assert_a_film_from_step_5(offline)
    without_scripts.goto(address)
    assert without_scripts.locator(PICTURE).count() == 1
    assert "step 5" in without_scripts.locator(PICTURE).get_attribute("alt")
    assert without_scripts.locator(PICTURE).bounding_box()["height"] > 300


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_our_exported_page_asks_no_host_and_axe_finds_nothing_serious(
    saved: Path, pages: Pages, axe: str, tmp_path: Path, theme: str
) -> None:
    page, asked = pages.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(exported(saved, tmp_path, "page", theme=theme))
    assert_a_film_from_step_5(page)
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    assert [url for url in asked if url.startswith("http")] == []


def test_an_untrusted_notebook_shows_its_pictures(changed: Path, opened: Opener, tmp_path: Path) -> None:
    screen = opened(saved=changed)
    assert not screen.page.evaluate(TRUSTED)
    screen.page.screenshot(path=tmp_path / "untrusted.png")
    assert_a_picture_of_step_5(screen.page)


def test_the_learners_own_notebook_opened_again_plays_its_films(saved: Path, opened: Opener, tmp_path: Path) -> None:
    """The notebook is trusted, but its widgets disappeared with the kernel that created them."""
    screen = opened(saved=saved)
    assert screen.page.evaluate(TRUSTED)
    assert_a_film_from_step_5(screen.page)
    screen.page.screenshot(path=tmp_path / "again.png")


def test_beside_a_running_widget_its_picture_is_hidden(opened: Opener) -> None:
    screen = opened(CELLS).run_all()
    screen.page.locator(".mvw-picture svg").wait_for()
    picture = screen.page.locator(PICTURE)
    assert (picture.count(), picture.is_visible()) == (1, False)
