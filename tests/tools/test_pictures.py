"""Every picture of the docs is made by a command, and every one that is made is shown somewhere."""

import re
from pathlib import Path

import pytest

from tools.pictures import __main__ as command
from tools.pictures.views import VIEWS

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"""(?:\]\(|src=["']|srcset=["'])([^)"'\s]*pictures/[^)"'\s]+)""")
SCREENS = {"jupyterlab_light.png", "jupyterlab_dark.png", "serving_light.png", "serving_dark.png"}
FILMS = {"film_light.gif", "film_dark.gif"}
MADE = {f"{name}.svg" for name in command.NAMES if name not in ("screens", "serving", "film")} | SCREENS | FILMS
LARGEST_PNG, LARGEST_FILM = 200_000, 1_000_000


def shown() -> dict[Path, list[Path]]:
    """Return which pictures each page of the checkout shows."""
    pages = [path for path in ROOT.rglob("*.md") if not {".venv", "build"} & set(path.parts)]
    found = {page: SHOWN.findall(page.read_text(encoding="utf-8")) for page in pages}
    return {page: [(page.parent / name).resolve() for name in names] for page, names in found.items()}


def test_every_picture_is_made_by_the_command() -> None:
    assert {path.name for path in command.PICTURES.iterdir()} == MADE


def test_every_page_shows_pictures_that_are_there() -> None:
    student_edition = ROOT / "tools" / "student_edition"
    missing = [
        (page.name, picture.name)
        for page, pictures in shown().items()
        for picture in pictures
        if not picture.exists() and page.parent != student_edition
    ]
    assert missing == []


@pytest.mark.parametrize(("names", "largest"), [(SCREENS, LARGEST_PNG), (FILMS, LARGEST_FILM)])
def test_screenshots_and_films_are_small(names: set[str], largest: int) -> None:
    assert [name for name in names if (command.PICTURES / name).stat().st_size > largest] == []


@pytest.mark.parametrize("name", VIEWS)
def test_the_picture_in_the_docs_is_what_the_view_draws_today(name: str) -> None:
    for file, content in command.files(name).items():
        assert (command.PICTURES / file).read_bytes() == content, f"python -m tools.pictures {name}"


def test_an_unknown_picture_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="there is no picture sunset; there are demo, "):
        command.main(["sunset"])
