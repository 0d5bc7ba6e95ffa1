"""Tests `mini-vllm bench busy` on made-up backends; its busy processes are real."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from mini_vllm.environment import THREADS
from mini_vllm_labs.bench import busy, peer_process
from mini_vllm_labs.bench.backend import BackendSettings, ServedRound
from mini_vllm_labs.bench.case import Case, Side
from mini_vllm_labs.cli.bench.busy import summary
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.cli.conftest import Commands

CPUS = str(os.cpu_count())
ENVIRONMENTS = {
    "default": {},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "all, spinning": {"OMP_NUM_THREADS": CPUS, "GOMP_SPINCOUNT": "300000"},
    "all, passive": {"OMP_NUM_THREADS": CPUS, "GOMP_SPINCOUNT": "0"},
    "transformers-static": {"OMP_NUM_THREADS": CPUS, "GOMP_SPINCOUNT": "300000"},
}


class MadeUpProcess:
    """A backend that takes 0.25 seconds per round."""

    opened: ClassVar[list[dict[str, str]]] = []
    children: ClassVar[set[int]] = set()

    def __init__(self, name: str, settings: BackendSettings) -> None:
        given = {variable.name: os.environ[variable.name] for variable in THREADS if variable.name in os.environ}
        self.opened.append(given | settings.environment())

    def serve(self, requests: Sequence[TimedRequest], **more: Any) -> ServedRound:
        self.children.add(len(psutil.Process().children()))
        return ServedRound([[0] * 32 for _ in requests], [], seconds=0.25, cpu_seconds=0.1)

    def close(self) -> None: ...


def test_sides_fix_their_threads_and_share_the_machine_with_busy_processes(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy, "PeerProcess", MadeUpProcess)
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", Path("nowhere"))
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    before = len(psutil.Process().children())
    shown = mini_vllm("bench", "busy", "--models", "embedded", "--busy", "0,2", "--batch", "1", "--rounds", 2, "--json")
    record = json.loads(shown.stdout)
    assert MadeUpProcess.opened == list(ENVIRONMENTS.values())
    assert {count - before for count in MadeUpProcess.children} == {0, 2}
    assert len(psutil.Process().children()) == before
    cases = [Case.read(one) for one in record["cases"]]
    assert [case.title for case in cases] == [f"embedded, batch 1, busy processes: {count}" for count in (0, 2)]
    assert {name: side.values for name, side in cases[0].sides.items()} == dict.fromkeys(ENVIRONMENTS, [128.0] * 2)
    assert list(record["missing"]) == ["openvino"]


def test_the_table_compares_the_default_with_the_best_fixed_choice() -> None:
    rates = {"default": [9.0, 8.0], "one thread": [4.0, 4.0], "all, spinning": [1.0, 1.0], "all, passive": [10.0, 10.0]}
    case = Case("beside 8", "tokens/s", "default", {name: Side(values) for name, values in rates.items()})
    table = summary([case])
    assert [next(iter(column.cells)) for column in table.columns] == [
        "beside 8", "8", "4", "1", "10", "0.85 (all, passive)",
    ]  # fmt: skip
