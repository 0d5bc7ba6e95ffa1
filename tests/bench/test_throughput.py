"""`mini-vllm bench throughput`: all backends serve the same requests, and failing or missing backends are named."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm.runner import loading
from mini_vllm_labs.bench import peer_process
from mini_vllm_labs.bench.backend import BackendSettings, Load
from mini_vllm_labs.bench.backend_process import make_backend
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.mini_vllm_backend import LAYERS_IN_C
from mini_vllm_labs.bench.models import EMBEDDED_MODEL
from mini_vllm_labs.bench.plan import QUICK, ThroughputPlan
from mini_vllm_labs.bench.roofline import COMPONENTS
from mini_vllm_labs.bench.throughput import throughput_cases
from mini_vllm_labs.pictures.terminal.options import threads_to_use
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.bench.conftest import executable
from tests.cli.conftest import Commands


@pytest.fixture(autouse=True)
def _no_other_peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", Path("nowhere"))
    monkeypatch.setattr(peer_process, "LLAMA_CPP_PYTHON", Path("nowhere"))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_all_backends_serve_the_same_requests(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    small = ("--quick", "--requests", 6, "--threads", 1, "--batch", "2,16,2", "--temperature", "0.8,0")
    shown = mini_vllm("bench", "throughput", *small, "--json")
    record = json.loads(shown.stdout)
    assert "python -m mini_vllm_labs.upkeep.openvino_peer" in record["missing"]["openvino"]
    assert "python -m mini_vllm_labs.upkeep.llama_cpp_peer" in record["missing"]["llama-cpp"]
    assert 2e6 < record["num_parameters"] < 3e6
    spent = record["seconds_by_operator"]
    assert min(spent.values()) > 0
    assert spent.get("matrix products", 0) + spent.get(LAYERS_IN_C, 0) > spent["copies of K and V"]
    cases = {case.title: case for case in map(Case.read, record["cases"])}
    sampled = "temperature 0.8"
    axes = [f"stream, {sampled}", f"batch 2, {sampled}", f"batch 16, {sampled}", "batch 2", "batch 16"]
    assert list(cases) == list(record["explained"]) == ["all at once", "stream", "shared prefix", *axes]
    for title, case in cases.items():
        num_compared = 0 if sampled in title else {"batch 2": 8, "batch 16": 16}.get(title, 6)
        assert list(case.sides) == list(peer_process.BACKENDS[:4])
        for name, side in case.sides.items():
            both = min(num_compared, 8) if name == "transformers-one-by-one" else num_compared
            assert side.equal == (both, both)
            figures = {key: quantity.value for key, quantity in side.figures.items()}
            assert min(side.values) > 0
            assert figures["peak"] > 50
            assert figures["CPU"] > 0
            assert 0 < figures["first token p50"] <= figures["first token p99"]
        explained = record["explained"][title]
        assert explained["share_of_roofline"] > 0, "over 1 where others slowed the reading of the machine's rates"
        assert sum(explained[part] for part in COMPONENTS) == pytest.approx(1)
    bars = [line for line in shown.stderr.splitlines() if "█" in line]
    assert len(bars) == 4 * len(cases)
    assert max(map(len, bars)) <= 80
    assert all(
        case.ratio("transformers-static")
        == pytest.approx(case.sides["mini-vllm"].median / case.sides["transformers-static"].median)
        for case in cases.values()
    )


@pytest.mark.parametrize("name", ["mini-vllm", "transformers-static", "transformers-continuous"])
def test_every_backend_draws_from_the_whole_vocabulary(name: str) -> None:
    backend = make_backend(name, BackendSettings(str(EMBEDDED_MODEL)))
    requests = [TimedRequest(0.0, str(number), [7], 1) for number in range(64)]

    def first_tokens(temperature: float) -> set[int]:
        return {token for tokens in backend.serve(requests, print, Load(temperature)).token_ids for token in tokens}

    assert len(first_tokens(0.0)) == 1
    # The distribution is nearly uniform: 64 draws pick about 63 of the 1,537 tokens. transformers' default would keep
    # only 50.
    assert len(first_tokens(1e3)) > 50
    assert len(first_tokens(0.0)) == 1


def test_alone_and_without_phase_5_the_budget_holds_the_longest_request(mini_vllm: Commands) -> None:
    options = ("--peers", "none", "--requests", 5, "--rounds", 1, "--threads", 1, "--lineup", "solution:1-4,solution:6")
    result = mini_vllm("bench", "throughput", "--json", "--batch", 1, "--temperature", 0, *options)
    record = json.loads(result.stdout)
    assert record["max_num_batched_tokens"] > 1024 + 16
    assert f"budget of {record['max_num_batched_tokens']:,} tokens per step" in " ".join(result.stderr.split())
    assert all(list(case["sides"]) == ["mini-vllm"] for case in record["cases"])


EXITS_AT_ONCE = "raise SystemExit('out of memory')"
EXITS_LATER = """
import json, sys
print(json.dumps({"ready": {}}), flush=True)
for _ in range(2):
    lengths = [length for prompt, length, arrival in json.loads(sys.stdin.readline())["requests"]]
    served = {"token_ids": [[5] * n for n in lengths], "token_times": [[0.1] * n for n in lengths], "seconds": 1.0}
    print(json.dumps({"served": served}), flush=True)
sys.stdin.readline()
raise SystemExit("out of memory")
"""


@pytest.mark.parametrize(("program", "when"), [(EXITS_AT_ONCE, ""), (EXITS_LATER, " (all at once)")])
def test_a_contender_that_breaks_off_is_missing_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, when: str
) -> None:
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", executable(tmp_path, program))
    plan, facts = (
        ThroughputPlan(EMBEDDED_MODEL, 1000, 2, 2, 1, ("mini-vllm", "openvino"), sizes=QUICK),
        dict[str, Any](),
    )
    cases = list(throughput_cases(plan, facts))
    assert facts["missing"] == {"openvino": f"openvino exited early; its last line: out of memory{when}"}
    assert [list(case.sides) for case in cases] == [["mini-vllm"]] * 3
    assert [len(case.sides["mini-vllm"].values) for case in cases] == [2, 2, 1]


@pytest.mark.parametrize(("small", "num_threads"), [(2_000_000, 2), (3_000_000, 1)])
def test_a_model_is_as_small_as_before_its_weights_are_packed(
    monkeypatch: pytest.MonkeyPatch, small: int, num_threads: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(loading, "SMALL_MODEL_PARAMETERS", small)
    monkeypatch.setattr(loading, "all_threads", lambda: 2)
    model = loading.load_model(prepack_weights=True)[0].model
    assert sum(weight.numel() for weight in model.parameters()) < 2_000_000
    assert torch.get_num_threads() == num_threads


def test_threads_are_one_per_cpu_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert (threads_to_use(2), threads_to_use(None)) == (2, 3)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads_to_use(None) == os.cpu_count()


def test_the_peak_memory_of_a_backend_is_its_own() -> None:
    held = bytearray(400 << 20)
    code = "from mini_vllm_labs.bench.backend_process import peak_rss_bytes; print(peak_rss_bytes())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) < len(held) / 2
