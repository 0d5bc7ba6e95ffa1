"""One JupyterLab for all tests here, on a copy of the course, with a separate notebook for each."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.upkeep.jupyter.server import Screen, copy_course, jupyterlab, write_notebook
from tests.chromium import Pages
from tests.notebook.files import read

Opener = Callable[..., Screen]


@pytest.fixture(scope="session")
def course(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course; without a browser it is not needed."""
    return copy_course(tmp_path_factory.mktemp("course") / "labs")


@pytest.fixture(scope="session")
def server(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with jupyterlab(course, tmp_path_factory.mktemp("jupyter")) as address:
        yield address


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    """Names that no notebook has used: JupyterLab gives a file the kernel that is already running under its name."""
    return (f"screen{number}.ipynb" for number in count())


@pytest.fixture(scope="module")
def opened(browser: Any, server: str, course: Path, names: Iterator[str]) -> Iterator[Opener]:
    """Open the given cells, or a course notebook with these cells inserted before its own. At the end, checks that no
    other host was contacted."""
    screens: list[Screen] = []

    def open_one(*cells: str, notebook: str = "", saved: Path | None = None) -> Screen:
        path = course / "notebooks" / next(names)
        if saved:
            shutil.copy(saved, path)
        else:
            write_notebook(path, [*cells, *(cells_of(course / "notebooks" / notebook) if notebook else ())])
        screens.append(Screen(browser, server).open(f"notebooks/{path.name}"))
        return screens[-1]

    yield open_one
    for screen in screens:
        screen.close()
    assert [stranger for screen in screens for stranger in screen.strangers] == []
    assert [error for screen in screens for error in screen.errors] == []


# nbconvert's page loads MathJax and RequireJS from the network, but our films do not need either.
NO_NETWORK = "ERR_INTERNET_DISCONNECTED"


@pytest.fixture
def offline(pages: Pages) -> Any:
    return pages.new_page(expected=NO_NETWORK, offline=True)


@pytest.fixture
def without_scripts(pages: Pages) -> Any:
    return pages.new_page(expected=NO_NETWORK, offline=True, java_script_enabled=False)


def exported(notebook: Path, folder: Path, template: str = "lab", **options: str) -> str:
    make_exporter: Callable[..., HTMLExporter] = HTMLExporter
    ours = [str(CHECKOUT / "notebooks")]
    page, _ = make_exporter(template_name=template, extra_template_basedirs=ours, **options).from_filename(
        str(notebook)
    )
    (folder / "page.html").write_text(page, encoding="utf-8")
    return (folder / "page.html").as_uri()


def cells_of(path: Path) -> Sequence[nbformat.NotebookNode]:
    cells: Sequence[nbformat.NotebookNode] = read(path).cells
    return cells
