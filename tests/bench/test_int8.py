"""Tests `mini-vllm bench int8` on made-up backends, but actually compares the embedded model's texts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.bench import int8, peer_process
from mini_vllm_labs.bench.backend import BackendSettings, ServedRound
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.cli.conftest import Commands
from tests.compiler import needs_compiler


class MadeUpProcess:
    """A backend that is twice as fast in int8, with weights a quarter of the size."""

    def __init__(self, name: str, settings: BackendSettings) -> None:
        assert settings.num_threads == 1
        self.times = 2 if settings.quantization else 1
        self.facts = {"weight_bytes": 400 // self.times**2}

    def serve(self, requests: Sequence[TimedRequest], **more: Any) -> ServedRound:
        return ServedRound([[0] * 32 for _ in requests], [], seconds=2.0, cpu_seconds=1 / self.times)

    def resident_bytes(self) -> int:
        return 2**30

    def close(self) -> None: ...


@needs_compiler
def test_speed_memory_and_quality_are_in_one_record(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "PeerProcess", MadeUpProcess)
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", Path(__file__))
    monkeypatch.setattr(peer_process, "XLLAMACPP_PYTHON", Path("nowhere"))
    options = ("--model", "embedded", "--batch", "1,4", "--rounds", 2, "--compared", 200)
    record = json.loads(mini_vllm("bench", "int8", *options, "--json").stdout)
    cases = [Case.read(one) for one in record["cases"]]
    assert [case.ratio("int8") for case in cases] == [2.0, 2.0]
    assert list(cases[1].sides) == ["float32", "bfloat16", "int8", "OpenVINO int8"]
    assert cases[1].sides["int8"].values == [256.0, 256.0]
    assert list(record["missing"]) == ["llama.cpp Q8_0"]
    assert record["weight_bytes"] == {"float32": 400, "bfloat16": 400, "int8": 100}
    quality, (plain, rounded) = record["quality"], record["quality"]["perplexities"]
    assert quality["tokens"] >= 200
    assert 0.95 < quality["equal"] <= 1
    assert 1 < plain < 3
    assert abs(rounded / plain - 1) < 0.02
    assert rounded != plain
