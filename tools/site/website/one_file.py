"""The one-file edition as a page: its frame, and in the places of the phases the starters.

The edition itself holds the solutions, and so does its frame (attention and the sampler of phase 6, in a shorter form).
The student edition has neither, and nor has the site, which is made from it: what a learner writes is shown as its
starter, with the contract in its docstring.
"""

import ast
import re
from pathlib import Path

from classroom.one_file.compose import MARK, TEMPLATE, compose
from course.starter_status import starter_path
from mini_vllm.assembly.lineup import PHASE_NAMES

INTRODUCTION = """\
# The engine in one file

`mini-vllm one-file DIR` writes the whole engine as one Python file that runs by itself: at most 1,200 lines, to read
from top to bottom in an hour. This is that file with your part left open: where the reference's code of a phase would
stand you find its starter, and what it must do. The command is part of the teachers' checkout, since the file holds the
answers.
"""
RULE = re.compile(r"^# =+\n", re.MULTILINE)
PART = re.compile(r"^((?:# [^\n]+\n)+)\n\n", re.MULTILINE)


def one_file_page() -> str:
    """Return the page as Markdown: the comments that begin a part as headings, the code between them."""
    template = TEMPLATE.read_text(encoding="utf-8")
    code = compose(MARK.sub(as_starter, without_answers(template)))
    _, start, code = code.partition("from __future__")
    pieces = PART.split(RULE.sub("", start + code))
    page = [INTRODUCTION, "## What it needs", fenced(pieces[0])]
    for comment, below in zip(pieces[1::2], pieces[2::2], strict=True):
        page += [as_heading(" ".join(line.removeprefix("# ") for line in comment.splitlines())), fenced(below)]
    return "\n\n".join(page)


def as_starter(mark: re.Match[str]) -> str:
    return f"#> labs/{Path(mark[1]).stem}/starter.py"


def without_answers(template: str) -> str:
    """Return the frame without its own versions of what a learner writes, and without their helpers."""
    written = {
        node.name
        for phase in range(1, len(PHASE_NAMES) + 1)
        for node in ast.parse(starter_path(phase).read_bytes()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    lines = template.splitlines(keepends=True)
    for node in reversed(ast.parse(template).body):
        if isinstance(node, ast.FunctionDef) and (node.name in written or node.name.startswith("_")):
            del lines[node.lineno - 1 : node.end_lineno]
    return re.sub(r"\n{4,}", "\n\n\n", "".join(lines))


def as_heading(comment: str) -> str:
    """Return the comment above a part as a heading and a sentence, for a phase with a link to its handout."""
    title, _, rest = comment.partition(": ")
    phase = re.fullmatch(r"Phase (\d)", title)
    if phase is None:
        return f"## {title}\n\n{rest[:1].upper()}{rest[1:]}"
    handout = f"labs/{starter_path(int(phase[1])).parent.name}/README.md"
    return f"## {title}\n\n{rest[:1].upper()}{rest[1:]} You write it in [phase {phase[1]}]({handout})."


def fenced(code: str) -> str:
    return f"```python\n{code.strip()}\n```" if code.strip() else ""
