"""The JavaScript model under Node, as Pyodide would show it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.runner.tab.javascript_runner import PROGRAM
from mini_vllm.runner.tab.pyodide_model import EMBEDDED

BRIDGE = Path(__file__).with_name("node_model.mjs")


class NodeModel:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        facts = self._read()
        self.vocab: int = facts["vocab"]
        self.maxLen: int = facts["maxLen"]
        self.calls: list[tuple[Any, ...]] = []

    def allocate(self, num_blocks: int, block_size: int) -> None:
        self._call("allocate", num_blocks, block_size)

    def executeModel(self, *arrays: Any) -> Any:  # noqa: N802
        self.calls.append(arrays)
        return self._call("executeModel", *map(list, arrays))

    def _call(self, method: str, *numbers: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"method": method, "numbers": numbers}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def missing(what: str) -> None:
    """Skip a test with a reason, or fail it if `REQUIRE_SITE` is set."""
    (pytest.fail if os.environ.get("REQUIRE_SITE") else pytest.skip)(what)


def node() -> str:
    found = shutil.which("node")
    if found is None:
        missing("no node here: it runs the JavaScript of the page")
    return found or ""


@contextmanager
def node_model(*options: str, folder: Path = EMBEDDED) -> Iterator[NodeModel]:
    command = [node(), str(BRIDGE), str(PROGRAM), str(folder), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield NodeModel(process)
        finally:
            process.kill()
