"""The page of results shows what the records hold, and what was not measured."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.plan import ALL_AT_ONCE, OURS, SHARED_PREFIX, STREAM, ThroughputPlan
from bench.served import ServedRound
from bench.throughput import Results, as_record
from course.workloads.timed_request import TimedRequest
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
SHELL = {"machine": describe_machine(), "quick": False}


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
    record = {"machine": describe_machine(), "quick": False, "model": "random-150m", **as_record(plan, results)}
    return {
        **record,
        "explained": dict.fromkeys(results.entries, EXPLAINED),
        "num_parameters": 150_900_000,
        "seconds_by_operator": OPERATORS,
    }


def test_the_page_in_the_repository_is_that_of_its_records() -> None:
    assert command.PAGE.read_text(encoding="utf-8") == page(command.read_records(command.RECORDS))


def test_nothing_run_is_nothing_measured() -> None:
    text = page({})
    assert text.count("Not measured.") == 11
    assert "## GPUs" in text


def test_ratios_and_aims_are_those_of_the_record() -> None:
    text = page({"throughput-random-150m-float32": throughput_record()})
    assert "### Random weights, 150.9 million parameters, float32" in text
    waits = "1.50s / 1.50s / 1.50s"
    assert f"| transformers-static 5.0 | 1 | 3.00 | {waits} | {waits} | {waits} | 1,024 MiB | 1 of 2 |" in text
    assert "    transformers-static ███████              1\n" in text
    assert "| all at once, at least 4 times the tokens/s of transformers-static | 3.00 | **missed by 25.0%** |" in text
    assert "| all at once, at least 0.9 times the tokens/s of openvino |  | not measured |" in text
    assert "| all at once, under 5% of large steps is not the forward pass | 10.0% | **missed by 5.0 points** |" in text
    assert "| shared prefix, more tokens/s than transformers-static | 3.00 | met |" in text
    assert "| shared prefix, more tokens/s than openvino |  | not measured |" in text
    assert "2 questions of 8 to 24 tokens after a shared document of 1,024, 16 tokens out" in text
    assert "Not measured, openvino: no environment" in text
    assert "| stream | 90.0% | 6.0% | 4.0% | 50% | 10.0% (from 32 requests) |" in text
    assert "with every operator timed: 75% matrix products, 25% everything else." in text
    assert "at 20.0 GB/s or multiplying at 300 GFLOP/s" in text


def test_a_stream_is_as_fast_only_if_its_latencies_are() -> None:
    record = throughput_record()
    ours, theirs = (record["workloads"][STREAM][name] for name in (OURS, "transformers-static"))
    text = page({"throughput-random-150m-bfloat16": record})
    assert "| never slower than | transformers-continuous | transformers-static |" in text
    assert "| all at once | not measured | met: tokens/s 3.00 |" in text
    assert "| met: tokens/s 3.00, first token 3.00, between tokens 3.00, per token 3.00 |" in text
    ours["output_tokens_per_second"] = 0.985 * theirs["output_tokens_per_second"]
    ours["time_to_first_token"]["p50"] = 1.25 * theirs["time_to_first_token"]["p50"]
    text = page({"throughput-random-150m-bfloat16": record})
    assert "| **missed:** tokens/s 0.98, first token 0.80 (by 20.0%), between tokens 3.00, per token 3.00 |" in text
    ours["output_tokens_per_second"] = 0.931 * theirs["output_tokens_per_second"]
    assert "**missed:** tokens/s 0.93 (by 5.0%)," in page({"throughput-random-150m-bfloat16": record})


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


def test_the_page_names_what_is_absent_without_a_feature() -> None:
    half = {"settings": {}, "output_tokens_per_second": 10.0}
    half |= {key: {"p50": 0.5, "p90": 1.0, "p99": 2.0} for key in ("time_to_first_token", "inter_token_latency")}
    record = {"workload": "2 requests", "num_threads": 1, "equal_requests": [2, 2], "with": half, "without": half}
    text = page({"preemption": {**SHELL, **record, "absent_without": ["kv_cache", "preemption"]}})
    assert "without it (the defaults, and these parts absent: kv_cache, preemption)" in text
    assert "| between tokens, p99 | 2.00s | 2.00s | 1.00 |" in text


def test_costs_have_their_units() -> None:
    cost = {"best": 1.5, "median": 1.66}
    record = {
        "per_scheduled_request": {"1024": cost},
        "per_admission": {"arrival": cost, "schedule": cost, "update": {"best": 30.0, "median": 40.0}},
        "pool_sizes": {"ratio": 1.02},
        "long_queue": {"num_queued": 100_000, "num_blocks": 1_000_000, "long": cost, "ratio": 0.97},
    }
    text = page({"scheduler": {**SHELL, **record}})
    assert "| a decode, 1,024 running | 1.66 µs |" in text
    assert "| the same, divided by that with an empty queue | 0.97 |" in text
    assert "| an admission, 512 cached tokens | 43.3 µs |" in text


def test_a_record_describes_its_machine_whatever_its_benchmark_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = subprocess.CompletedProcess([], 0, stdout='{"machine": "x86_64", "clock": "process_time"}')
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    monkeypatch.setattr(command, "RECORDS", tmp_path)
    command.run("scheduler", quick=False)
    record = command.read_records(tmp_path)["scheduler"]
    assert record == {"machine": describe_machine(), "quick": False, "clock": "process_time"}


def test_inaccurate_predictions_are_shown_with_their_error() -> None:
    near = {"workload": "burst", "figure": "median TTFT", "measured": 0.01, "predicted": 0.009, "ratio": 0.9}
    far = {"workload": "documents", "figure": "tokens/s", "measured": 2000.0, "predicted": 2500.0, "ratio": 1.25}
    record = {
        "calibration": {"model": "embedded", "dtype": "float32", "num_steps": 1234},
        "tolerance": 0.15,
        "agreement": [{**near, "agrees": True, "ratios": [0.88, 0.9, 1.2]}, {**far, "agrees": False, "ratios": [1.25]}],
    }
    text = page({"calibrate": {**SHELL, **record}})
    assert "1 of 2 predictions are within 15%" in text
    assert "| burst, median TTFT | 10.0ms | 9.0ms | 0.90 | 0.88 to 1.20 |  |" in text
    assert "| documents, tokens/s | 2,000 | 2,500 | 1.25 | 1.25 to 1.25 | **off by 25%** |" in text


def server(*probed: tuple[float, float, bool]) -> dict[str, Any]:
    names = ("rate", "p99_ttft", "holds")
    search = {"bound": 1.0, "probed": [dict(zip(names, one, strict=True)) for one in probed]}
    return {"rate_search": search, "report": {"output_throughput": 1234.5}}


def serving(**fields: Any) -> str:
    """Return the page of one record of `bench serve`."""
    aims = [
        {"text": "three times the rate", "found": 2.91, "met": False},
        {"text": "nothing found", "found": None, "met": False},
        {"text": "cheap HTTP", "found": 0.0987, "met": True},
    ]
    record = {"model": "embedded", "servers": {}, "missing": {}, "http_cost": None, "aims": aims} | fields
    return page({"serve-on-embedded": SHELL | record})


def test_the_highest_rate_that_held_stands_beside_the_lowest_that_did_not() -> None:
    servers = {
        "mini-vllm": server((40.0, 0.06, True), (80.0, 1.2, False), (56.0, 0.24, True), (67.0, 1.5, False)),
        "never-held": server((10.0, 4.0, False)),
        "always-held": server((10.0, 0.5, True)),
    }
    text = serving(servers=servers, missing={"openvino": "no environment"})
    assert "### embedded\n" in text
    assert "| mini-vllm | 56.0 | 67.0 | 240 ms of 1,000 | 1,234 |" in text
    assert "| never-held | none | 10.0 |  | 1,234 |" in text
    assert "| always-held | 10.0 |  | 500 ms of 1,000 | 1,234 |" in text
    assert "openvino is missing: no environment\n" in text
    assert "streams computed at once" not in text


def test_aims_are_met_missed_or_not_found() -> None:
    text = serving()
    assert "| three times the rate | 2.91 | **missed** |" in text
    assert "| nothing found | not found | **missed** |" in text
    assert "| cheap HTTP | 0.0987 | met |" in text


def test_the_cost_of_http_is_that_of_the_median_round() -> None:
    cost = {"offline": [4000.0, 4400.0, 4200.0], "streamed": [3000.0, 3900.0, 3800.0], "ratio": 0.886}
    text = serving(http_cost=cost | {"num_equal": 767, "num_compared": 768})
    assert "3,800 tokens/s through HTTP, 4,200 offline (medians of 3 rounds in turns)" in text
    assert ", in the median round 0.89 of it; 767 of 768 answers are the same." in text
