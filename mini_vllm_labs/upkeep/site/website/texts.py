"""Adapts a text from the repository for MkDocs: rewrites links, folds parts, adds hints, and removes comments."""

import posixpath
import re
from collections.abc import Callable, Collection, Sequence

from mini_vllm_labs.cli.hint import STEP

FENCE = re.compile(r"(^[ ]*(`{3,})[^\n]*\n.*?^[ ]*\2[ ]*$\n?)", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"[ ]*<!--.*?-->", re.DOTALL)
LINK = re.compile(r"`[^`\n]*`|(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
PICTURE = re.compile(r'<picture>.*?srcset="([^"]+)".*?<img src="([^"]+)" alt="([^"]*)".*?</picture>', re.DOTALL)
# GitHub allows a list or table right after a line of text; MkDocs requires an empty line in between.
TIGHT = re.compile(r"^((?![ ]*(?:[-*]|\d+\.)[ ]|[ ]*\||#)[^\n]*\S[^\n]*\n)(?=(?:[-*]|1\.)[ ]|\|)", re.MULTILINE)
UNDER_ITEM = re.compile(r"^[ ]{2,3}(?=\S)", re.MULTILINE)
TASK = re.compile(r"^###? Task (\d+(?:\.\d)?)\b[^\n]*\n", re.MULTILINE)
HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
FOLD = '<details markdown="1" data-search-exclude>'  # otherwise, the search would also find hidden text
IN_LAB = re.compile(r"notebooks/\w+\.ipynb")


def page_text(text: str, path: str, pages: Collection[str]) -> str:
    """Adapt the text of the page at `path` for MkDocs.

    A link to one of `pages`, a picture, or one of the lab's notebooks stays a link; other links become plain text.
    """
    text = outside_code(text, lambda prose: COMMENT.sub("", prose))
    text = outside_code(text, lambda prose: PICTURE.sub(r"![\3](\2#only-light)\n![\3](\1#only-dark)", prose))
    text = outside_code(text, lambda prose: prose.replace("<details>", FOLD))
    text = outside_code(text, lambda prose: UNDER_ITEM.sub("    ", TIGHT.sub(r"\1\n", prose)))
    return outside_code(text, lambda prose: LINK.sub(lambda link: linked(link, path, pages), prose))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to a text except in its code blocks."""
    parts = FENCE.split(text)
    return "".join(change(part) if number % 3 == 0 else part for number, part in enumerate(parts) if number % 3 < 2)


def linked(link: re.Match[str], path: str, pages: Collection[str]) -> str:
    """Return the form that a link takes on the page at `path`."""
    mark, words, address = link.groups()
    if address is None or re.match(r"https?:|#", address):
        return link[0]
    target = address.partition("#")[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if IN_LAB.fullmatch(target):
        return f'<a href="{up(path)}{lab(target)}" markdown="span">{words}</a>'
    if mark or target in pages:
        return f"{mark}[{words}]({address})"
    return words


def lab(file: str) -> str:
    """Return the address, relative to the site's root, that opens a file in the lab."""
    return f"lab/lab/index.html?path={file}"


def up(path: str) -> str:
    """Return the relative path from a page to the site's root; each page except the first is a folder."""
    page = re.sub(r"(^|/)(?:index|README)\.md$", r"\1", path)
    return "../" * (page.removesuffix(".md").rstrip("/").count("/") + (page != "")) or "./"


def with_hints(text: str, hints: dict[str, Sequence[tuple[str, str]]]) -> str:
    """Add hints to the ends of a handout's tasks, with each step folded inside the previous one."""
    for task in reversed(list(TASK.finditer(text))):
        end = next(
            (found.start() for found in HEADING.finditer(text, task.end()) if not in_code(text, found.start())), -1
        )
        end = len(text) if end < 0 else end
        if task[1] in hints:
            text = f"{text[:end].rstrip()}\n\n{folded(hints[task[1]])}\n\n{text[end:]}"
    return text


def in_code(text: str, place: int) -> bool:
    return any(block.start() <= place < block.end() for block in FENCE.finditer(text))


def folded(steps: Sequence[tuple[str, str]], number: int = 1) -> str:
    """Return the steps of a hint, which unfold one after another and are excluded from search."""
    if number > len(steps):
        return ""
    title, text = steps[number - 1]
    summary = f"Hint {number} of {len(steps)}" + (f": {title}" if title else "")
    inner = folded(steps, number + 1)
    return (
        f'<details markdown="1" data-search-exclude class="hint"><summary>{summary}</summary>\n\n{text}\n\n{inner}\n\n'
        "</details>"
    )


def hints_in(text: str) -> dict[str, Sequence[tuple[str, str]]]:
    """Return each task's hint steps, as titles (possibly empty) and texts, from a file of readable hints."""
    _, *parts = re.split(r"^# (\d+(?:\.\d)?)\n", text, flags=re.MULTILINE)
    found = dict[str, Sequence[tuple[str, str]]]()
    for task, steps in zip(parts[::2], parts[1::2], strict=True):
        _, *texts = map(str.strip, STEP.split(steps))
        found[task] = list(zip(texts[::2], texts[1::2], strict=True))
    return found
