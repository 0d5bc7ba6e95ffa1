"""The commands, files and links that the released handouts, notebooks and rules give to a learner."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

PROGRAMS = ("mini-vllm", "pytest", "make", "python", "pip", "conda", "source", "git", "jupyter")
LINEUP = re.compile(r"(?:starter|solution)(?::\d(?:-\d)?)?(?:,(?:starter|solution):\d(?:-\d)?)*")


@dataclass(frozen=True)
class Command:
    """A command line in a file: the variables set before it, and its words."""

    file: str
    environment: dict[str, str]
    words: list[str]

    def __str__(self) -> str:
        return f"{self.file}: {shlex.join(self.words)}"


@dataclass(frozen=True)
class ReleasedText:
    """One markdown file or notebook: its prose with comments, inline code, code blocks and links."""

    file: str
    text: str
    inline_code: list[str]
    blocks: list[str]
    links: list[str]

    def commands(self) -> Iterator[Command]:
        for line in [*self.inline_code, *(line for block in self.blocks for line in block.splitlines())]:
            try:
                words = shlex.split(line, comments=True)
            except ValueError:
                continue
            environment = dict[str, str]()
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                name, _, environment[name] = words.pop(0).partition("=")
            if words and words[0].removeprefix(".venv/bin/") in PROGRAMS:
                yield Command(self.file, environment, [words[0].removeprefix(".venv/bin/"), *words[1:]])

    def lineups(self) -> Iterator[str]:
        yield from (code for code in self.inline_code if LINEUP.fullmatch(code))
        for command in self.commands():
            if "LAB_IMPL" in command.environment:
                yield command.environment["LAB_IMPL"]
            if "--lineup" in command.words:
                yield command.words[command.words.index("--lineup") + 1]


def released_texts(folder: Path) -> list[ReleasedText]:
    texts = [read(folder, path, path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.md"))]
    return texts + [read(folder, path, markdown_of(path)) for path in sorted(folder.rglob("*.ipynb"))]


def markdown_of(notebook: Path) -> str:
    """Return the cells of a notebook as one markdown text, with code in blocks."""
    cells: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    return "\n\n".join(
        f"```python\n{source}\n```" if cell["cell_type"] == "code" else source
        for cell, source in zip(cells, sources, strict=True)
    )


def read(folder: Path, path: Path, markdown: str) -> ReleasedText:
    tokens = list(flat(MarkdownIt("commonmark").enable("table").parse(markdown)))
    links = [str(token.attrs[name]) for token in tokens for name in ("href", "src") if name in token.attrs]
    return ReleasedText(
        path.relative_to(folder).as_posix(),
        markdown,
        [" ".join(token.content.split()) for token in tokens if token.type == "code_inline"],
        [token.content for token in tokens if token.type == "fence" and token.info in ("", "bash", "sh")],
        [link for link in links if not re.match(r"[a-z]+:", link)],
    )


def flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flat(token.children or [])
