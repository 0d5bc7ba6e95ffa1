"""Writes the eight slide decks from `docs/decks/` into `build/decks`, each as a single HTML file.

Run it as `python -m mini_vllm_labs.upkeep.decks`.

Each file is self-contained, with slides, pictures, notes, and, if it is available, reveal.js. The source is Markdown.
`---` separates slides, and `Ask:` begins a slide's speaker notes. A picture's text alternative consists of its SVG's
title and description. Comments that check numbers are removed.
"""

import argparse
import base64
import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from mini_vllm.assembly.lineup import CHECKOUT

PARTS = ("reveal.css", "reveal.js", "notes.js")
COMMENT = re.compile(r"[ \t]*<!--.*?-->", re.DOTALL)
PICTURE = re.compile(r"^!\[\]\((.+?)\)$", re.MULTILINE)
TITLE = re.compile(r"<title>(.*?)</title><desc>(.*?)</desc>", re.DOTALL)
SETTINGS = "width: 1280, height: 720, margin: 0.04, hash: true, transition: 'none', plugins: [RevealNotes]"
START = f"Reveal.initialize({{{SETTINGS}}})"
SOURCES = CHECKOUT / "docs" / "decks"
BUILD = CHECKOUT / "build"


@dataclass(frozen=True)
class Slide:
    """A slide's text and its speaker notes, both as Markdown."""

    text: str
    notes: str


def slides_in(text: str) -> list[Slide]:
    """Split a deck's source into slides."""
    parts = [part.strip().partition("\nAsk:") for part in re.split(r"^---$", text, flags=re.MULTILINE)]
    return [Slide(shown.strip(), notes.strip()) for shown, _, notes in parts]


def reveal_in(folder: Path) -> dict[str, str]:
    """Return the files of reveal.js as data URLs, or an empty dict if one is missing."""
    if not all((folder / name).is_file() for name in PARTS):
        return {}
    return {name: _address("text/css" if name.endswith("css") else "text/javascript", folder / name) for name in PARTS}


def deck_page(source: Path, reveal: dict[str, str]) -> str:
    """Return a deck as HTML. Raises `ValueError` unless every picture is an SVG with a title and a description."""
    slides = slides_in(source.read_text(encoding="utf-8"))
    title = slides[0].text.splitlines()[0].lstrip("# ")
    sections = "\n".join(_section(slide, source.parent) for slide in slides)
    style = Path(__file__).with_name("deck.css").read_text(encoding="utf-8")
    head = f'<link rel="stylesheet" href="{reveal["reveal.css"]}">' if reveal else ""
    scripts = "".join(f'<script src="{reveal[name]}"></script>' for name in PARTS[1:]) if reveal else ""
    return (
        f'<!doctype html>\n<html lang="en-GB"><head><meta charset="utf-8"><title>{escape(title)}</title>{head}'
        f'<style>{style}</style></head>\n<body><div class="reveal"><div class="slides">\n{sections}\n</div></div>\n'
        f"{scripts}{f'<script>{START}</script>' if reveal else ''}</body></html>\n"
    )


def _section(slide: Slide, folder: Path) -> str:
    markdown = MarkdownIt("commonmark").enable("table")
    text = COMMENT.sub("", slide.text)
    pictures = [_figure(folder / name) for name in PICTURE.findall(text)]
    shown = f"<div>{markdown.render(PICTURE.sub('', text))}</div>{''.join(pictures)}"
    return f'<section>\n{shown}<aside class="notes">{markdown.render(COMMENT.sub("", slide.notes))}</aside></section>'


def _figure(path: Path) -> str:
    found = TITLE.search(path.read_text(encoding="utf-8")) if path.suffix == ".svg" else None
    if found is None:
        raise ValueError(f"{path.name}: an SVG on a slide needs a title and a description")
    words = f"{found[1]}. {found[2]}".replace('"', "&quot;")
    return f'<figure><img alt="{words}" src="{_address("image/svg+xml", path)}"></figure>'


def _address(kind: str, path: Path) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def main() -> None:
    """Write the decks; if reveal.js is missing, print how to get it."""
    parser = argparse.ArgumentParser(prog="python -m mini_vllm_labs.upkeep.decks", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD / "decks")
    parser.add_argument("--cache", type=Path, default=BUILD / "decks-cache", help="where reveal.js is")
    options = parser.parse_args()
    reveal = reveal_in(options.cache)
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"error: {error}")
    for source in sorted(SOURCES.glob("*.md")):
        path = options.folder / f"{source.stem}.html"
        path.write_text(deck_page(source, reveal), encoding="utf-8")
        print(path)
    if not reveal:
        print("No reveal.js here: each deck is a page to scroll, with its notes.")
        print("mini_vllm_labs/upkeep/install_reveal.sh fetches reveal.js.")


if __name__ == "__main__":
    main()
