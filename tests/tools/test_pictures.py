"""A command makes every picture in the docs, a page shows each one, and a browser can read the GIF."""

import base64
import random
import re
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.upkeep.pictures import __main__ as command
from mini_vllm_labs.upkeep.pictures.__main__ import PICTURES
from mini_vllm_labs.upkeep.pictures.animated_gif import CLEAR, END, MOMENT, READING, STEPS, animated_gif, codes
from mini_vllm_labs.upkeep.pictures.terminal_film import film
from mini_vllm_labs.upkeep.pictures.views import VIEWS
from tests.chromium import Pages

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"""(?:\]\(|src=["']|srcset=["'])([^)"'\s]*pictures/[^)"'\s]+)""")
SCREENS = {"jupyterlab_light.png", "jupyterlab_dark.png", "serving_light.png", "serving_dark.png"}
FILMS = {"film_light.gif", "film_dark.gif"}
MADE = {f"{name}.svg" for name in command.NAMES if name not in ("screens", "serving", "film")} | SCREENS | FILMS
LARGEST_PNG, LARGEST_FILM = 200_000, 1_000_000
DECODING = Path(__file__).with_name("decoding.js")
SQUARES = """<body style="margin:0;background:%s"><div style="position:absolute;left:%dpx;top:7px;width:9px;height:9px;
  background:rgb(213,94,0)"></div>"""


def shown() -> dict[Path, list[Path]]:
    """Return which pictures each page of the checkout shows."""
    pages = [path for path in ROOT.rglob("*.md") if not {".venv", "build"} & set(path.parts)]
    found = {page: SHOWN.findall(page.read_text(encoding="utf-8")) for page in pages}
    return {page: [(page.parent / name).resolve() for name in names] for page, names in found.items()}


def test_every_picture_is_made_by_the_command() -> None:
    assert {path.name for path in command.PICTURES.iterdir()} == MADE


def test_every_page_shows_pictures_that_are_there() -> None:
    student_edition = ROOT / "mini_vllm_labs" / "upkeep" / "student_edition"
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
        assert (command.PICTURES / file).read_bytes() == content, f"python -m mini_vllm_labs.upkeep.pictures {name}"


def test_a_film_of_a_terminal_scrolls_and_rests_where_motion_is_unwanted() -> None:
    drawn = film([(0.0, "$ a"), (1.0, "<b>"), (1.0, ""), (2.0, "c")])
    assert "&lt;b&gt;" in drawn
    assert re.findall(r"([\d.]+)% {transform:translateY\((\d+)px", drawn) == [
        ("0.00", "558"),
        ("14.29", "522"),
        ("28.57", "504"),
    ]
    assert "g{transform:translateY(504px)}" in drawn
    assert "no-preference){.film{animation:film 7.0s" in drawn


def test_an_unknown_picture_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="there is no picture sunset; there are demo, "):
        command.main(["sunset"])


@pytest.fixture
def decoder(pages: Pages) -> Any:
    """A page that may decode images, which the browser allows only for secure addresses. Nothing is fetched."""
    page = pages.new_page()
    page.route("**/*", lambda route: route.fulfill(body="", content_type="text/html"))
    page.goto("https://decoder.invalid/")
    page.add_script_tag(path=DECODING)
    return page


def as_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_every_frame_is_the_screenshot(browser: Any, pages: Pages, decoder: Any) -> None:
    page = pages.new_page(viewport={"width": 60, "height": 40})
    shots = []
    for colour, left, milliseconds in (("white", 4, 40), ("white", 9, 50), ("#eef", 30, 60), ("#eef", 30, 1000)):
        page.set_content(SQUARES % (colour, left))
        shots.append((page.screenshot(), milliseconds))
    frames, for_ever = decoder.evaluate("framesOfGif", as_text(animated_gif(browser, shots)))
    assert for_ever
    assert [milliseconds for milliseconds, _ in frames] == [40, 50, 1060], "one without a change prolongs the last"
    assert [pixels for _, pixels in frames] == [decoder.evaluate("pixelsOfPng", as_text(png)) for png, _ in shots[:3]]


def decoded(stream: list[tuple[int, int]]) -> bytes:
    """Return the pixels that LZW codes encode, and check that each code has as many bits as a reader expects."""
    table, before, pixels = dict[int, bytes](), b"", bytearray()
    for code, num_bits in stream:
        assert num_bits == min(12, max(9, (END + 1 + len(table)).bit_length())) or code == CLEAR
        if code in (CLEAR, END):
            table, before = {}, b""
            continue
        run = bytes([code]) if code < CLEAR else table.get(code, before + before[:1])
        if before:
            table[END + 1 + len(table)] = before + run[:1]
        pixels += run
        before = run
    return bytes(pixels)


@pytest.mark.parametrize("num_colours", [1, 2, 255])
def test_the_codes_give_the_pixels_back_also_when_the_table_is_full(num_colours: int) -> None:
    pixels = bytes(random.Random(0).randrange(num_colours) for _ in range(30_000))
    assert decoded(list(codes(pixels))) == pixels


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_the_film_of_the_readme_moves_from_step_to_step(decoder: Any, paper: str) -> None:
    times = decoder.evaluate("timesOfGif", as_text((PICTURES / f"film_{paper}.gif").read_bytes()))
    assert sum(time >= READING for time in times) == len(STEPS)
    assert times.count(round(MOMENT, -1)) >= 4 * (len(STEPS) - 1), "several moments from each step to the next"
