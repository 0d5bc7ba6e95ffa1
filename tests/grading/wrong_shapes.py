"""Answers of the wrong kind, one function at a time: does any failure show code that the learner did not write?

`python -m tests.grading.wrong_shapes 1-5` tries all of them and prints every failure with a line of ours in it.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from course.grading.plan import load_plan
from tests.grading.checkout import Checkout, solution, with_line
from tests.grading.forked import forked

ENDLESS = "while True: pass"
DEEP = "_again = lambda n: _again(n + 1) + 1; _again(0)"
SHAPES = (
    "return None",
    "return 5",
    "return 'x'",
    "return [None]",
    "return {'A': None}",
    "return (n for n in (1, 2, 3))",
    "return object()",
    "return len",
    "yield 1",
    "raise KeyError('x')",
    "return {}[0]",
    "[].x",
)
OURS = re.compile(
    r"^((labs|mini_vllm|tests)/(?!phase\d_\w+/starter\.py)[\w/]+\.py:\d+: |>  |E  |_ _ _|Traceback)", re.MULTILINE
)


def variants(phase: int, shapes: tuple[str, ...] = SHAPES) -> Iterator[tuple[str, str]]:
    """Yield a description and the text of a starter for each public function of a phase and each shape."""
    (plan,) = (plan for plan in load_plan() if plan.number == phase)
    for name, parameters in plan.names.items():
        if parameters in ("class", "property") or name.endswith("__init__"):
            continue
        for line in shapes:
            yield f"{name}: {line}", with_line(solution(phase), name.rpartition(".")[2], line)


def main() -> None:
    """Copy the course, and try the phases that the command line names (`2`, `1-5`) there."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(Path(folder))
        jobs = [(phase, what, text) for phase in phases(sys.argv[1]) for what, text in variants(phase)]
        num_bad = 0
        for (phase, what, _), output in zip(jobs, forked(checkout, [(p, text) for p, _, text in jobs]), strict=True):
            lines = output.splitlines()
            found = [line for line in lines if OURS.match(line)]
            num_bad += bool(found)
            print(f"phase {phase} {what}: {lines[-1]}", *found[:3], sep="\n    ", flush=True)
    sys.exit(bool(num_bad))


def phases(text: str) -> range:
    """Return the phases that `2` or `1-5` means."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    main()
