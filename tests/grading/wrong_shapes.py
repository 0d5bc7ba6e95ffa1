"""Answers of the wrong kind, one function at a time: does any failure show code that the learner did not write?

`python -m tests.grading.wrong_shapes 1-5` tries all of them and prints every failure with a line of ours in it.
Each runs in a process of its own, forked from one that has imported all that the tests need.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mini_vllm.grading.plan import load_plan
from tests.grading.checkout import ROOT, Checkout, solution, with_line

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


def run_tests(checkout: Checkout, phase: int, text: str, *options: str) -> str:
    """Return what the learner reads: the graded tests of a phase in a forked process."""
    starter = checkout.starter(phase)
    starter.write_text(text, encoding="utf-8")
    output = checkout.folder / "output.txt"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            code = int(pytest.main([str(starter.parent), "-q", "-p", "no:cacheprovider", *options]))
        finally:
            os._exit(code)
    os.waitpid(child, 0)
    return output.read_text(encoding="utf-8", errors="replace")


def main() -> None:
    """Copy the course, and try the phases that the command line names (`2`, `1-5`) there."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(Path(folder))
        command = [sys.executable, "-m", "tests.grading.wrong_shapes", *sys.argv[1:]]
        done = subprocess.run(command, cwd=folder, env=environment(checkout) | {"WRONG_SHAPES_HERE": "1"}, check=False)
    sys.exit(done.returncode)


def environment(checkout: Checkout) -> dict[str, str]:
    """Return an environment in which the copy is what is imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join([str(checkout.folder), str(ROOT)])
    return kept | {"LAB_IMPL": "starter", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path}


def try_here(first: int, last: int) -> int:
    """Try the phases in this copy; return how many failures showed our code."""
    checkout, num_bad = Checkout.at(Path.cwd()), 0
    for phase in range(first, last + 1):
        for what, text in variants(phase):
            lines = run_tests(checkout, phase, text).splitlines()
            found = [line for line in lines if OURS.match(line)]
            num_bad += bool(found)
            print(f"phase {phase} {what}: {lines[-1]}", *found[:3], sep="\n    ", flush=True)
    return num_bad


if __name__ == "__main__":
    if "WRONG_SHAPES_HERE" in os.environ:
        begin, _, end = sys.argv[1].partition("-")
        sys.exit(try_here(int(begin), int(end or begin)))
    main()
