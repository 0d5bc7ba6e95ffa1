"""`python -m tools.decks`: write the eight slide decks of `docs/decks/` into `build/decks`, each as one HTML file."""

import argparse
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from tools.decks.page import deck_page, reveal_in

SOURCES = CHECKOUT / "docs" / "decks"
BUILD = CHECKOUT / "build"


def main() -> None:
    """Write the decks, and say how to get slides where there is no reveal.js."""
    parser = argparse.ArgumentParser(prog="python -m tools.decks", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD / "decks")
    parser.add_argument("--cache", type=Path, default=BUILD / "decks-cache", help="where reveal.js is")
    options = parser.parse_args()
    reveal = reveal_in(options.cache)
    options.folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.md")):
        path = options.folder / f"{source.stem}.html"
        path.write_text(deck_page(source, reveal), encoding="utf-8")
        print(path)
    if not reveal:
        print("No reveal.js here: each deck is a page to scroll, with its notes. tools/install_reveal.sh fetches it.")


if __name__ == "__main__":
    main()
