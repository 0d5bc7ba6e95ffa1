"""Draws random sentences from the repository, by kind of text, for a reader to judge.

Run it as `python -m mini_vllm_labs.upkeep.sentences`. The same checkout, date and number give the same sentences.
"""

import argparse
import ast
import codecs
import io
import json
import random
import re
import subprocess
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from mini_vllm.assembly.lineup import CHECKOUT

Text = tuple[str, str]
"""A kind of text, and a paragraph. `SUMMARY` is the kind of a docstring's first paragraph."""

SUMMARY = "summary"

END = re.compile(r"(?<=[.?!])[)*\"]*\s+(?=[*(\"`\[]*(?:[A-Z`]|vLLM|torch|llguidance|reveal|macOS|mini-vllm))")
MARKUP = re.compile(r"<!--.*?-->|<[a-z/][^>]*>|^ *(?:[-*]|\d+\.) +|[*_]{2}|(?<=\])\([^)]*\)", re.M | re.S)
WORD = re.compile(r"[A-Za-z]{2,}")
SUFFIXES = {".py", ".md", ".rot13", ".toml", ".ipynb"}
NO_COMMENT = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma|with solutions|end\b|!)")


def split(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph, each on one line."""
    return [one for one in END.split(" ".join(paragraph.split())) if len(WORD.findall(one)) > 2]


def of_markdown(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells in a Markdown text, without code blocks and headings."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    text = re.sub(r"^> ?", "", text, flags=re.M)
    text = re.sub(r"^(?:#.*|\|[-:| ]+\||-{3,})$", "", text, flags=re.M)
    text = re.sub(r"^\|.*\|$", lambda row: "\n\n" + row[0].replace("|", "\n\n"), text, flags=re.M)
    yield from (MARKUP.sub("", part) for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text))


def of_python(text: str) -> Iterator[Text]:
    """Yield the docstrings, error messages and comments in Python code."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            parts = (ast.get_docstring(node) or "").split("\n\n")
            yield from ((SUMMARY if part is parts[0] else "docstring", part) for part in parts if "   " not in part)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for part in node.exc.args:
                pieces = part.values if isinstance(part, ast.JoinedStr) else [part]
                found = [piece.value if isinstance(piece, ast.Constant) else "`x`" for piece in pieces]
                yield "error", "".join(map(str, found))
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type == tokenize.COMMENT]
    kept = [one for one in tokens if not NO_COMMENT.match(one.string) and "   " not in one.string]
    for _, lines in groupby(enumerate(kept), key=lambda pair: (pair[1].start[0] - pair[0], pair[1].start[1])):
        yield "comment", " ".join(one.string.lstrip("#:").strip() for _, one in lines)


def of_hints(data: Any) -> Iterator[str]:
    """Yield the values of `rule` and `hint` in a table of graded tests."""
    if isinstance(data, dict):
        yield from (value for key, value in data.items() if key in ("rule", "hint") and isinstance(value, str))
    for value in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from of_hints(value)


def texts_of(path: Path, is_of_a_lab: bool) -> Iterator[Text]:
    """Yield the texts in a file, or nothing if its kind of file contains no sentences."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            yield from of_python(text)
        case ".md":
            yield from (("handout" if is_of_a_lab else "page", part) for part in of_markdown(text))
        case ".rot13":
            yield from (("hint", part) for part in of_markdown(codecs.decode(text, "rot13")))
        case ".toml" if "labtest" in path.parts:
            yield from (("hint", part) for part in of_hints(tomllib.loads(text)))
        case ".ipynb":
            cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
            yield from (("notebook", part) for cell in cells for part in of_markdown("".join(cell["source"])))


class Sentence(NamedTuple):
    """A sentence, its kind of text, and its file. `is_first` is true for the first sentence of a docstring."""

    kind: str
    path: str
    text: str
    is_first: bool


def sentences(*places: str) -> Iterator[Sentence]:
    """Yield the sentences in all tracked files, or in those that `places` names."""
    command = ["git", "ls-files", "--", *places]
    for name in subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines():
        if Path(name).suffix in SUFFIXES and (CHECKOUT / name).is_file():
            for kind, paragraph in texts_of(CHECKOUT / name, is_of_a_lab=name.startswith("labs/")):
                shown = "docstring" if kind == SUMMARY else kind
                for number, text in enumerate(split(paragraph)):
                    yield Sentence(shown, name, text, is_first=kind == SUMMARY and number == 0)


def draw(found: Iterable[Sentence], number: int, day: date) -> list[Sentence]:
    """Return up to `number` sentences of each kind, the same ones on the same day."""
    of_kinds = groupby(sorted(set(found)), key=lambda one: one.kind)
    pools = [list(of_kind) for _, of_kind in of_kinds]
    return [one for pool in pools for one in random.Random(str(day)).sample(pool, min(number, len(pool)))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="*", help="paths to draw from; without any, the whole checkout")
    parser.add_argument("--number", type=int, default=43, help="sentences of each kind")
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="the seed, as YYYY-MM-DD")
    chosen = parser.parse_args()
    for one in draw(sentences(*chosen.places), chosen.number, chosen.date):
        print(f"{one.kind}\t{one.path}\t{one.text}")
