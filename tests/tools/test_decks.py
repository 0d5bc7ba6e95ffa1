"""The decks: one idea and one question per slide, checked numbers, no downloads, and no clipped text."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.upkeep.decks import __main__ as decks
from mini_vllm_labs.upkeep.decks.__main__ import (
    BUILD,
    COMMENT,
    PARTS,
    PICTURE,
    SOURCES,
    Slide,
    deck_page,
    reveal_in,
    slides_in,
)
from mini_vllm_labs.upkeep.site import __main__ as site
from tests.chromium import Pages

DECKS = sorted(SOURCES.glob("*.md"))
SLIDES = [(deck.stem, n, one) for deck in DECKS for n, one in enumerate(slides_in(deck.read_text("utf-8")), 1)]
MAX_WORDS = 60
NAMES = re.compile(r"[Pp]hases? \d+( to \d+)?|```.*?```|`[^`]*`|!\[.*?\)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")
MEASURE = """() => { const all = (css) => [...document.querySelectorAll(`section.present ${css}`)];
  const parts = [...all("div > *"), ...all("img")].map(one => one.getBoundingClientRect());
  return { low: Math.max(...parts.map(one => one.bottom)), wide: Math.max(...parts.map(one => one.right)),
    high: Math.min(...parts.map(one => one.top)), images: all("img").every(one => one.naturalWidth > 0) } }"""
every_slide = pytest.mark.parametrize(("deck", "number", "slide"), SLIDES, ids=[f"{deck}:{n}" for deck, n, _ in SLIDES])
every_deck = pytest.mark.parametrize("deck", DECKS, ids=lambda path: path.stem)


def numbers(text: str) -> set[str]:
    return {found.replace(",", "").rstrip(".") for found in NUMBER.findall(text)}


@every_slide
def test_a_slide_is_short_and_asks_the_class(deck: str, number: int, slide: Slide) -> None:
    shown = COMMENT.sub("", slide.text)
    assert shown.startswith("# " if number == 1 else "## ")
    assert len(re.findall(r"^#+ ", shown, re.MULTILINE)) == 1
    assert len(PICTURE.sub("", shown).split()) <= MAX_WORDS
    assert number == 1 or "check:" in slide.text or PICTURE.search(shown), "a slide has a number or a picture"
    assert "?" in slide.notes


@every_slide
def test_every_number_of_a_slide_is_in_one_of_its_checks(deck: str, number: int, slide: Slide) -> None:
    text = f"{slide.text}\n{slide.notes}"
    checked = {one.replace("_", "") for one in re.findall(r"\d[\d_]*(?:\.\d+)?", " ".join(COMMENT.findall(text)))}
    assert numbers(NAMES.sub("", COMMENT.sub("", text))) <= checked


def test_a_number_without_a_check_would_be_found() -> None:
    assert numbers(NAMES.sub("", "Phase 3: 1,600 tokens, p99 of 4.5 ms on an H100. `--seats 7`")) == {"1600", "4.5"}


def test_there_are_eight_decks() -> None:
    assert [deck.stem for deck in DECKS] == ["engine", *(f"phase{n}" for n in range(1, 7)), "serving"]


@every_deck
def test_without_reveal_js_a_deck_is_a_page_with_everything_on_it(deck: Path, pages: Pages, tmp_path: Path) -> None:
    page = opened(deck, {}, pages, tmp_path)
    num_slides = len(slides_in(deck.read_text("utf-8")))
    assert page.locator("section:visible").count() == page.locator("aside:visible").count() == num_slides
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("[...document.images].every(one => one.naturalWidth > 0 && one.alt)")
    assert "check:" not in page.content()


@every_deck
def test_as_slides_one_is_seen_at_a_time_and_nothing_is_cut_off(deck: Path, pages: Pages, tmp_path: Path) -> None:
    reveal = reveal_in(BUILD / "decks-cache")
    if not reveal:
        (pytest.fail if os.environ.get("REQUIRE_REVEAL") else pytest.skip)(
            "mini_vllm_labs/upkeep/install_reveal.sh fetches reveal.js"
        )
    page = opened(deck, reveal, pages, tmp_path)
    for number, slide in enumerate(slides_in(deck.read_text("utf-8")), 1):
        assert page.locator("section:not([hidden])").count() == 1
        assert page.locator("section.present :is(h1, h2)").inner_text() == slide.text.splitlines()[0].lstrip("# ")
        found = page.evaluate(MEASURE)
        assert found["images"]
        assert 0 <= found["high"] < found["low"] <= 720, f"slide {number}: {found}"
        assert found["wide"] <= 1280, f"slide {number}: {found}"
        page.keyboard.press("ArrowRight")


def opened(deck: Path, reveal: dict[str, str], pages: Pages, folder: Path) -> Any:
    """Open a deck from a file. Any network request is a failure."""
    path = folder / "deck.html"
    path.write_text(deck_page(deck, reveal), encoding="utf-8")
    page = pages.new_page(viewport={"width": 1280, "height": 720})
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri(), wait_until="load")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    return page


def test_an_incomplete_reveal_js_is_not_used(tmp_path: Path) -> None:
    for name in PARTS[:-1]:
        (tmp_path / name).write_text("", encoding="utf-8")
    assert reveal_in(tmp_path) == {}


def test_a_picture_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "deck.md").write_text("# Deck\n\n![](a.svg)\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.svg: an SVG on a slide needs a title and a description"):
        deck_page(tmp_path / "deck.md", {})


@pytest.mark.parametrize("write", [decks, site])
def test_a_file_in_place_of_the_folder_is_refused_in_one_line(write: Any, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "notes").write_text("mine", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["write", str(tmp_path / "notes")])
    with pytest.raises(SystemExit, match=r"^error: .*notes"):
        write.main()
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
