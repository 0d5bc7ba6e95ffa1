"""`mini-vllm bench throughput` and the features: every backend runs, and the output shows what was measured."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console

from bench import peer_process
from bench.backend import BackendSettings, Load
from bench.backend_process import make_backend
from bench.cli.throughput import show_slower
from bench.features import FEATURES, measure_feature, require_phases
from bench.mini_vllm_backend import LAYERS_IN_C
from bench.model_directory import EMBEDDED_MODEL
from bench.plan import QUICK, ThroughputPlan
from bench.throughput import as_record, run_throughput
from course.terminal.options import threads_to_use
from course.workloads.timed_request import TimedRequest
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.runner import loading
from tests.bench.conftest import executable
from tests.cli.conftest import Commands


def test_all_backends_serve_the_same_requests(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", Path("nowhere"))
    monkeypatch.setattr(peer_process, "LLAMA_CPP_PYTHON", Path("nowhere"))
    small = ("--quick", "--requests", 6, "--threads", 1, "--batch", "2,16,2", "--temperature", "0.8,0")
    record = json.loads(mini_vllm("bench", "throughput", *small, "--json").stdout)
    assert list(record["missing"]) == ["openvino", "llama-cpp"]
    assert "python -m tools.openvino_peer" in record["missing"]["openvino"]
    assert "python -m tools.llama_cpp_peer" in record["missing"]["llama-cpp"]
    assert 2e6 < record["num_parameters"] < 3e6
    assert list(record["workloads"]) == ["all at once", "stream", "shared prefix"]
    spent = record["seconds_by_operator"]
    assert min(spent.values()) > 0
    assert spent.get("matrix products", 0) + spent.get(LAYERS_IN_C, 0) > spent["copies of K and V"]
    for workload, entries in record["workloads"].items():
        assert list(entries) == list(peer_process.BACKENDS[:4])
        for entry in entries.values():
            assert entry["equal_requests"] == [6, 6]
            assert entry["output_tokens_per_second"] > 0
            assert entry["peak_rss_bytes"] > 50 * 2**20
            assert entry["cpu_seconds"] > 0
            assert entry["time_to_first_token"]["p50"] <= entry["time_to_first_token"]["p99"] <= entry["seconds"]
        explained = record["explained"][workload]
        assert 0 < explained["share_of_roofline"] < 1
        seconds = explained["seconds"]
        parts = seconds["forward_pass"] + seconds["batch_and_sampling"] + seconds["scheduling_and_outputs"]
        assert parts == pytest.approx(seconds["all"])
    sampled = "temperature 0.8"
    axes = [f"stream, {sampled}", f"batch 2, {sampled}", f"batch 16, {sampled}", "batch 2", "batch 16"]
    assert list(record["axes"]) == axes
    for workload, entries in record["axes"].items():
        num_compared = 0 if sampled in workload else {"batch 2": 8, "batch 16": 16}[workload]
        for name, entry in entries.items():
            both = min(num_compared, 8) if name == "transformers-one-by-one" else num_compared
            assert entry["equal_requests"] == [both, both]
            assert entry["inter_token_latency"]["p50"] > 0


@pytest.mark.parametrize("name", ["mini-vllm", "transformers-static", "transformers-continuous"])
def test_every_backend_draws_from_the_whole_vocabulary(name: str) -> None:
    backend = make_backend(name, BackendSettings(str(EMBEDDED_MODEL)))
    requests = [TimedRequest(0.0, str(number), [7], 1) for number in range(64)]

    def first_tokens(temperature: float) -> set[int]:
        return {token for tokens in backend.serve(requests, print, Load(temperature)).token_ids for token in tokens}

    assert len(first_tokens(0.0)) == 1
    # Nearly even: 64 draws hit about 63 of 1,537 tokens. The default of transformers would keep 50.
    assert len(first_tokens(1e3)) > 50
    assert len(first_tokens(0.0)) == 1


def test_the_chart_fits_and_names_what_is_missing(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", tmp_path / "nowhere")
    monkeypatch.setenv("COLUMNS", "80")
    shown = mini_vllm("bench", "throughput", "--quick", "--requests", 2, "--peers", "openvino").output
    assert "openvino is missing" in shown
    bars = [line for line in shown.splitlines() if "█" in line]
    assert len(bars) == 3
    assert all("2/2 equal" in line and len(line) <= 80 for line in bars)
    assert "of the roofline" in shown


def test_the_last_table_says_where_ours_is_slower(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"mini-vllm": 100.0, "transformers-continuous": 50.0, "transformers-static": 125.0, "openvino": 10.0}
    entries = {
        name: {
            "output_tokens_per_second": rate,
            **{key: {"p50": rate} for key in ("inter_token_latency", "time_to_first_token", "normalized_latency")},
        }
        for name, rate in rates.items()
    }
    without = {name: entry for name, entry in entries.items() if name != "transformers-continuous"}
    axes = {"stream, temperature 0.8": entries, "batch 64, temperature 0.8": without}
    show_slower(Console(width=80), {"workloads": {"stream": entries}, "axes": axes})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Ours", "against", "continuous", "static", "openvino"] in rows
    assert ["stream", "2.00", "0.50*", "0.80*", "1.25", "10.00", "0.10*"] in rows
    assert ["batch", "64,", "temperature", "0.8", "0.80*", "1.25", "10.00", "0.10*"] in rows


def test_without_phase_5_the_budget_holds_the_longest_request(mini_vllm: Commands) -> None:
    options = ("--peers", "none", "--requests", 5, "--rounds", 1, "--threads", 1, "--lineup", "solution:1-4,solution:6")
    result = mini_vllm("bench", "throughput", "--json", "--batch", 1, "--temperature", 0, *options)
    record = json.loads(result.stdout)
    assert record["max_num_batched_tokens"] > 1024 + 16
    assert f"budget of {record['max_num_batched_tokens']:,} tokens per step" in " ".join(result.stderr.split())
    assert all(list(entries) == ["mini-vllm"] for entries in record["workloads"].values())
    record = json.loads(mini_vllm("bench", "prefix", "--quick", "--json", *options[-2:]).stdout)
    assert record["with"]["settings"]["max_model_len"] < record["with"]["settings"]["max_num_batched_tokens"] == 512


EXITS_AT_ONCE = "raise SystemExit('out of memory')"
EXITS_LATER = """
import json, sys
print(json.dumps({"ready": {}}), flush=True)
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
    plan = ThroughputPlan(EMBEDDED_MODEL, 1000, 2, 2, 1, ("mini-vllm", "openvino"), sizes=QUICK)
    record = as_record(plan, run_throughput(plan))
    assert record["missing"] == {"openvino": f"openvino exited early; its last line: out of memory{when}"}
    assert [list(entries) for entries in record["workloads"].values()] == [["mini-vllm"]] * 3
    assert [len(entries["mini-vllm"]["all_seconds"]) for entries in record["workloads"].values()] == [2, 2, 1]


def test_each_feature_really_is_on_and_off_and_changes_no_token() -> None:
    compared = [measure_feature(name, parse_lineup("solution"), 0.1, 1) for name in FEATURES]
    for same, both in (one.same_tokens for one in compared):
        assert same == both > 3
    prefix, chunked, preemption = ((one.with_it.steps, one.without.steps) for one in compared)
    with_hits, without_hits = (sum(step["num_tokens"] for step in steps) for steps in prefix)
    assert with_hits < without_hits / 2
    with_chunks, whole_prompts = (max(step["num_tokens"] for step in steps) for steps in chunked)
    assert with_chunks <= 128 < whole_prompts
    on_demand, reserved = (max(step["num_requests"] for step in steps) for steps in preemption)
    assert on_demand > reserved


@pytest.fixture
def _restore_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_restore_threads")
def test_threads_are_those_asked_for_though_a_small_model_chooses_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    comparison = measure_feature("prefix", parse_lineup("solution"), 0.05, 1, num_threads=2)
    assert (comparison.num_threads, torch.get_num_threads()) == (2, 2)


@pytest.mark.usefixtures("_restore_threads")
@pytest.mark.parametrize(("small", "num_threads"), [(2_000_000, 2), (3_000_000, 1)])
def test_a_model_is_as_small_as_before_its_weights_are_packed(
    monkeypatch: pytest.MonkeyPatch, small: int, num_threads: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(loading, "SMALL_MODEL_PARAMETERS", small)
    torch.set_num_threads(2)
    model = loading.load_model(prepack_weights=True)[0].model
    assert sum(weight.numel() for weight in model.parameters()) < 2_000_000
    assert torch.get_num_threads() == num_threads


def test_threads_are_one_per_cpu_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert (threads_to_use(2), threads_to_use(None)) == (2, 3)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads_to_use(None) == os.cpu_count()


def test_a_feature_needs_its_phase() -> None:
    with pytest.raises(ValueError, match=r"Chunked prefill cannot be measured .* chunking absent"):
        require_phases(parse_lineup("solution:1-4,solution:6"), FEATURES["chunked"])


def test_features_are_drawn_in_pairs(mini_vllm: Commands) -> None:
    shown = mini_vllm("bench", "chunked", "--quick").output
    assert shown.count(" with it █") == shown.count(" without █") == 5
    assert "between tokens, p99" in shown
    assert "max_num_batched_tokens=128" in shown
