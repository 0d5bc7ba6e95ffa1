"""The page of results shows what the records hold, and what was not measured."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.backend import ServedRound
from bench.plan import ALL_AT_ONCE, OURS, SHARED_PREFIX, STREAM, ThroughputPlan
from bench.throughput import Results, as_record
from course.workloads.timed_request import TimedRequest
from tests.snapshots import Snapshots
from tools.benchmarks import __main__ as command
from tools.benchmarks.__main__ import describe_machine
from tools.benchmarks.page import page

REQUESTS = [TimedRequest(0.0, "0", [1, 2], 2), TimedRequest(0.0, "1", [3], 2)]
EXPLAINED = {
    "read_bytes_per_second": 20e9,
    "flops_per_second": 300e9,
    "least_seconds": 1.0,
    "share_of_roofline": 0.5,
    "seconds": {"forward_pass": 9.0, "batch_and_sampling": 0.6, "scheduling_and_outputs": 0.4, "all": 10.0},
    "overhead": {"at_least_requests": 32, "num_steps": 4, "share": 0.1},
}


OPERATORS = {"everything else": 1.0, "matrix products": 3.0}
MACHINE = {
    **{"cores": 2, "architecture": "x86_64", "vectors": "avx2", "memory_gib": 16, "system": "Debian 12"},
    **{"python": "3.11", "torch": "2.8", "transformers": "4.57"},
}
SHELL = {"machine": MACHINE, "quick": False}


def served(seconds: float, *tokens: int) -> ServedRound:
    times = [[seconds / 2, seconds], [seconds / 2, seconds]]
    return ServedRound([[4, 5], [6, *tokens]], times, seconds, 2**30)


def throughput_record() -> dict[str, Any]:
    plan = ThroughputPlan(Path("random-150m"), 100, 2, 1, 2, (OURS, "transformers-static"))
    results = Results(missing={"openvino": "no environment"})
    for workload in (ALL_AT_ONCE, STREAM, SHARED_PREFIX):
        ours = served(1.0, 7)
        results.keep(workload, OURS, REQUESTS, ours, ours, {})
        results.keep(workload, "transformers-static", REQUESTS, served(3.0, 8), ours, {"version": "5.0"})
    return {
        **SHELL,
        **{"model": "random-150m"},
        **as_record(plan, results),
        "explained": dict.fromkeys(results.entries, EXPLAINED),
        "num_parameters": 150_900_000,
        "seconds_by_operator": OPERATORS,
    }


def test_the_page_in_the_repository_is_that_of_its_records() -> None:
    assert command.PAGE.read_text(encoding="utf-8") == page(
        command.read_records(command.RECORDS), command.RECORDS / "gpu"
    )


def test_nothing_run_is_nothing_measured() -> None:
    text = page({})
    assert text.count("Not measured.") == 12
    assert "## GPUs" in text


def test_the_machine_has_no_name() -> None:
    facts = "cores architecture vectors memory_gib system python torch transformers"
    assert set(describe_machine()) == set(facts.split())


def test_one_command_runs_keeps_and_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "CHECKOUT", tmp_path.parent)
    monkeypatch.setattr(command, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(command, "RECORDS", tmp_path / "benchmarks")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--only", "prefix", "--only", "chunked"])
    command.main()
    record = json.loads((tmp_path / "benchmarks" / "prefix.json").read_text())
    text = (tmp_path / "benchmarks.md").read_text()
    assert "quick trial runs" in text
    one, other = (record[side]["output_tokens_per_second"] for side in ("with", "without"))
    ratio = record["ratios"]["output tokens per second"]
    assert f"| output tokens per second | {one:,.0f} | {other:,.0f} | {ratio:.2f} |" in text
    assert "## `mini-vllm bench chunked`\n\n8 chats" in text
    assert "with it (max_num_batched_tokens=128) and without it (max_num_batched_tokens=2048, enable_ch" in text


def test_a_record_describes_its_machine_whatever_its_benchmark_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = subprocess.CompletedProcess([], 0, stdout='{"machine": "x86_64", "clock": "process_time"}')
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    monkeypatch.setattr(command, "RECORDS", tmp_path)
    command.run("scheduler", quick=False)
    record = command.read_records(tmp_path)["scheduler"]
    assert record == {"machine": describe_machine(), "quick": False, "clock": "process_time"}


def of_stream(tokens: float, first_token: float) -> dict[str, Any]:
    """Return a record whose stream has these shares of the other's tokens per second and time to the first token."""
    record = throughput_record()
    ours, theirs = (record["workloads"][STREAM][name] for name in (OURS, "transformers-static"))
    ours["output_tokens_per_second"] = tokens * theirs["output_tokens_per_second"]
    ours["time_to_first_token"]["p50"] = first_token * theirs["time_to_first_token"]["p50"]
    return record


def a_feature() -> dict[str, Any]:
    half = {"settings": {}, "output_tokens_per_second": 10.0}
    half |= {key: {"p50": 0.5, "p90": 1.0, "p99": 2.0} for key in ("time_to_first_token", "inter_token_latency")}
    record = {"workload": "2 requests", "num_threads": 1, "equal_requests": [2, 2], "with": half, "without": half}
    return {**SHELL, **record, "absent_without": ["kv_cache", "preemption"]}


def costs() -> dict[str, Any]:
    small, large = ({"best": time, "median": time + 0.1} for time in (1.5, 3.1))
    return SHELL | {"costs": {"A decode": {"16 running": small, "1,024 running": large}, "A look-up": {"once": large}}}


def beside_vllm() -> dict[str, Any]:
    """A decode that meets its aim, one that does not, and an admission that does."""
    names = {"decode, 16 running": 0.2513, "decode, 64 running": 0.21, "arrival": 0.7, "admission": 0.3}
    compared = [
        {"name": name, "peer": "vLLM 0.13.0", "ours": [10 * ratio], "theirs": [10.0], "ratios": [ratio], "ratio": ratio}
        for name, ratio in names.items()
    ]
    return SHELL | {"num_admissions": 2000, "compared": compared}


def predictions() -> dict[str, Any]:
    """One prediction that agrees, and one that is off by 25 %."""
    near = {"workload": "burst", "figure": "median TTFT", "measured": 0.01, "predicted": 0.009, "ratio": 0.9}
    far = {"workload": "documents", "figure": "tokens/s", "measured": 2000.0, "predicted": 2500.0, "ratio": 1.25}
    return SHELL | {
        "calibration": {"model": "embedded", "dtype": "float32", "num_steps": 1234},
        "tolerance": 0.15,
        "agreement": [{**near, "agrees": True, "ratios": [0.88, 0.9, 1.2]}, {**far, "agrees": False, "ratios": [1.25]}],
    }


def sampling() -> dict[str, Any]:
    """A model that meets one aim and misses the other, and one with a large vocabulary, which may lose more."""
    rates = {"greedy": [100.0, 90.0, 110.0], "temperature 0.8": [91.0, 92.0, 80.0], "0.8 with two cuts": [79.0]}
    masks = {"phase 9, a regex": 0.034, "llguidance, a JSON schema": 0.15}
    model, wide = "embedded model", "Qwen3-0.6B's shape, 2 layers, random weights"
    cases = [
        {"model": model, "batch_size": 1, "vocab_size": 1537, "rates": rates, "mask_shares": {}},
        {"model": model, "batch_size": 64, "vocab_size": 1537, "rates": rates, "mask_shares": masks},
        {"model": wide, "batch_size": 64, "vocab_size": 151_936, "rates": rates, "mask_shares": {}},
    ]
    return SHELL | {"num_threads": 2, "cases": cases}


def server(*probed: tuple[float, float, bool]) -> dict[str, Any]:
    names = ("rate", "p99_ttft", "holds")
    search = {"bound": 1.0, "probed": [dict(zip(names, one, strict=True)) for one in probed]}
    return {"rate_search": search, "report": {"output_throughput": 1234.5}}


def serving() -> dict[str, Any]:
    """Servers that held some, no and all rates, aims that are missed, not found and met, and three rounds of HTTP."""
    servers = {
        "mini-vllm": server((40.0, 0.06, True), (80.0, 1.2, False), (56.0, 0.24, True), (67.0, 1.5, False)),
        "never-held": server((10.0, 4.0, False)),
        "always-held": server((10.0, 0.5, True)),
    }
    rounds = {"offline": [4000.0, 4400.0, 4200.0], "streamed": [3000.0, 3900.0, 3800.0], "ratio": 0.886}
    aims = (("three times the rate", 2.91, False), ("nothing found", None, False), ("cheap HTTP", 0.0987, True))
    return SHELL | {
        "model": "embedded",
        "servers": servers,
        "missing": {"openvino": "no environment"},
        "http_cost": {**rounds, "num_equal": 767, "num_compared": 768},
        "aims": [dict(zip(("text", "found", "met"), aim, strict=True)) for aim in aims],
    }


def test_the_page_is_as_it_was_reviewed(snapshots: Snapshots) -> None:
    streams = {"as-fast": of_stream(3, 1 / 3), "late": of_stream(0.985, 1.25), "slow": of_stream(0.931, 1)}
    records = {f"throughput-{name}": record for name, record in streams.items()}
    records |= {"preemption": a_feature(), "scheduler": costs(), "calibrate": predictions()}
    records |= {"beside-vllm": beside_vllm(), "sampling": sampling()}
    snapshots.check("benchmarks", page({**records, "serve-on-embedded": serving()}))
    snapshots.check("benchmarks_without_http", page({"serve-on-embedded": serving() | {"http_cost": None}}))
