"""Grades many starters in one copy of the course, each by `pytest` in a fork of a warm process.

Importing everything that the tests need costs more than the tests of a phase.
"""

import gc
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.grading.checkout import ROOT, Checkout

FROM_HERE = "tests.grading.forked"
# Code that must never appear in the output, because the learner did not write it.
OURS = re.compile(
    r"^((labs|mini_vllm|tests)/(?!phase\d+_\w+/starter\.py)[\w/]+\.py:\d+: |>  |E  |_ _ _|Traceback)", re.MULTILINE
)


def forked(checkout: Checkout, jobs: Sequence[tuple[int, str]], *options: str) -> Iterator[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join([str(checkout.folder), str(ROOT)])
    changed = {"LAB_IMPL": "starter", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path, "COLUMNS": "200"}
    changed["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", FROM_HERE, *options]
    order = checkout.folder / "jobs.json"
    order.write_text(json.dumps(jobs), encoding="utf-8")
    with subprocess.Popen(
        command, cwd=checkout.folder, env=kept | changed, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    assert process.returncode == 0


def serve(options: Sequence[str]) -> None:
    for name in ("pytest_timeout", "mini_vllm_labs.grading.labtest.reports"):
        importlib.import_module(name)  # so that the forked processes inherit it

    gc.freeze()  # otherwise, each child's garbage collector would traverse all of it
    checkout = Checkout.at(Path.cwd())
    for phase, text in json.loads(Path("jobs.json").read_text(encoding="utf-8")):
        untouched = checkout.starter(phase).read_text(encoding="utf-8")
        checkout.starter(phase).write_text(text, encoding="utf-8")
        print(json.dumps(run_tests(checkout, phase, *options)), flush=True)
        checkout.starter(phase).write_text(untouched, encoding="utf-8")


def run_tests(checkout: Checkout, phase: int, *options: str) -> str:
    output = checkout.folder / "output.txt"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            folder = str(checkout.starter(phase).parent)
            code = int(pytest.main([folder, "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", *options]))
        finally:
            os._exit(code)
    os.waitpid(child, 0)
    return output.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    serve(sys.argv[1:])
