"""Writes two pages: widgets that play without Python, with their steps as text, and the one-file edition."""

import ast
import json
import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

from mini_vllm.assembly.lineup import PHASE_NAMES
from mini_vllm_labs.classroom.one_file.compose import MARK, TEMPLATE, compose
from mini_vllm_labs.notebook.records import FOLDER, read_lines, result_in
from mini_vllm_labs.pictures.block_life import block_life
from mini_vllm_labs.pictures.calculator import calculator
from mini_vllm_labs.pictures.drafts import draft_film
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.paged_batch import paged_batch
from mini_vllm_labs.pictures.prefix_tree import prefix_tree
from mini_vllm_labs.pictures.race import race
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import compare, time_machine
from mini_vllm_labs.runs.starter_status import starter_path
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.upkeep.pictures.views import compute_then_memory

OBSERVED = FOLDER.parent
STILLS = {
    "batching": ("Static and continuous batches", "00_tour"),
    "chunking_dial": ("What chunks cost and gain", "05_chunked_prefill"),
    "lanes": ("Planning while the model computes", "11_async_scheduling"),
    "policy_comparison": ("Three policies on the same requests", "09_policies"),
}
INTRODUCTION = """\
# The engine in one file

`mini-vllm one-file DIR` writes the whole engine as one Python file that runs by itself: at most 1,200 lines, to read
from top to bottom in an hour. This is that file with your part left open: where the reference's code of a phase would
stand you find its starter, and what it must do. The command is part of the teachers' checkout, since the file holds the
answers.
"""
RULE = re.compile(r"^# =+\n", re.MULTILINE)
PART = re.compile(r"^((?:# [^\n]+\n)+)\n\n", re.MULTILINE)


def observed(name: str) -> Recording:
    return Recording.read(OBSERVED / f"{name}.jsonl")


def with_drafts() -> Film:
    """Return a film of notebook 10's recorded run with the most drafts."""
    lines = read_lines(FOLDER / "10_speculative_decoding.xz").values()
    runs = [run for run in (result_in(json.loads(line)) for line in lines) if not isinstance(run, list)]
    return draft_film(max((run.recording for run in runs), key=lambda one: str(one.steps).count("'drafts'")))


FILMS: Mapping[str, tuple[str, Callable[[], Film]]] = {
    "The time machine": (
        "Eight requests on 20 blocks. From above: the tokens of the step, the queues, the blocks, the whole run. "
        "Step 6 preempts r3.",
        lambda: time_machine(observed("all_phases")),
    ),
    "Phase 1 alone, and all phases": (
        "The same requests twice. What phases 2 to 5 change shows in the first step that differs.",
        lambda: compare(observed("phase_1_alone"), observed("all_phases"), ("phase 1", "all phases")),
    ),
    "A race": (
        "How far each request of these two runs is, over one time axis.",
        lambda: race({"phase 1": observed("phase_1_alone"), "all phases": observed("all_phases")}),
    ),
    "Two gates": (
        "A thousand requests, 8,192 tokens a step, 10,000 blocks: first compute lets no more in, then memory does.",
        compute_then_memory,
    ),
    "The life of a block": (
        "Free, held, shared, kept for its content: every block in every step.",
        lambda: block_life(observed("all_phases")),
    ),
    "The prefix tree": (
        "Blocks whose content is kept, each after the one that it continues.",
        lambda: prefix_tree(observed("all_phases")),
    ),
    "From a token to its slot": (
        "The batch of phase 6, token by token: its row, its slot, and the keys that it reads.",
        paged_batch,
    ),
    "Drafts, kept and rejected": (
        "Speculative decoding: what was guessed, what the model said, what is given back.",
        with_drafts,
    ),
}


def gallery_page(lab: Callable[[str], str]) -> str:
    """Return the gallery as Markdown; `lab` maps a notebook's name to the address that opens it."""
    page = [
        "# Gallery",
        "Press play, drag the slider, click a request or a block to follow it. These are the widgets of the notebooks, "
        "with runs of the reference; in the lab they show what *your* engine decides.",
    ]
    for title, (words, film) in FILMS.items():
        page += [f"## {title}", words, played(title, film())]
    page += ["## What fits on a GPU", "Model, GPU and settings, and what they allow.", framed(calculator().still())]
    page += ["## With knobs that ask Python", "These turn in the lab, where Python runs."]
    for name, (title, notebook) in STILLS.items():
        page += [f"### {title}", f"ALT:{name}", f'<a href="{lab(notebook)}">Turn the knobs in the lab</a>']
    return "\n\n".join(page)


def played(title: str, film: Film, step: int | None = None) -> str:
    """Return a playable film, and a list that describes each of its steps."""
    steps = "".join(f"<li>{escape(picture.sentence)}</li>" for picture in film.pictures)
    words = f"<details><summary>{escape(title)} in words</summary><ol start=0>{steps}</ol></details>"
    return framed(player(film, step).still()) + "\n\n" + words


def framed(still: str) -> str:
    return f'<div class="live"><div>{still}</div></div>'


def one_file_page() -> str:
    """Return the page as Markdown; each part's opening comment becomes a heading, followed by the part's code.

    The edition contains the solutions, and so does its template (attention and phase 6's sampler, in a shorter form).
    The student edition and the site made from it contain neither the solutions nor the template. The page shows a
    learner's code as its starter, with the contract in its docstring.
    """
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
    """Remove the template's own versions of functions that learners write, along with their helpers."""
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
    """Turn the comment above a part into a heading and a sentence; a phase gets a link to its handout."""
    title, _, rest = comment.partition(": ")
    phase = re.fullmatch(r"Phase (\d)", title)
    if phase is None:
        return f"## {title}\n\n{rest[:1].upper()}{rest[1:]}"
    handout = f"labs/{starter_path(int(phase[1])).parent.name}/README.md"
    return f"## {title}\n\n{rest[:1].upper()}{rest[1:]} You write it in [phase {phase[1]}]({handout})."


def fenced(code: str) -> str:
    return f"```python\n{code.strip()}\n```" if code.strip() else ""
