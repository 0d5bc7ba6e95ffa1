"""The page of results says what the records say, and what was not measured."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.bench.plan import ALL_AT_ONCE, OURS, SHARED_PREFIX, STREAM, Plan
from mini_vllm.bench.requests import BenchRequest
from mini_vllm.bench.results import Results, as_record
from mini_vllm.bench.served import Served
from tools.benchmarks import __main__ as command
from tools.benchmarks.machine import describe_machine
from tools.benchmarks.page import page

REQUESTS = [BenchRequest([1, 2], 2), BenchRequest([3], 2)]
EXPLAINED = {
    "read_bytes_per_second": 20e9,
    "flops_per_second": 300e9,
    "least_seconds": 1.0,
    "share_of_roofline": 0.5,
    "seconds": {"forward_pass": 9.0, "batch_and_sampling": 0.6, "scheduling_and_outputs": 0.4, "all": 10.0},
    "overhead": {"at_least_requests": 32, "num_steps": 4, "share": 0.1},
}


def served(seconds: float, *tokens: int) -> Served:
    times = [[seconds / 2, seconds], [seconds / 2, seconds]]
    return Served([[4, 5], [6, *tokens]], times, seconds, 2**30)


def throughput_record() -> dict[str, Any]:
    plan = Plan(Path("random-150m"), 100, 2, 1, 2, (OURS, "transformers-static"))
    results = Results(missing={"openvino": "no environment"})
    for workload in (ALL_AT_ONCE, STREAM, SHARED_PREFIX):
        ours = served(1.0, 7)
        results.keep(workload, OURS, REQUESTS, ours, ours, {})
        results.keep(workload, "transformers-static", REQUESTS, served(3.0, 8), ours, {})
    record = {"machine": describe_machine(), "quick": False, "model": "random-150m", **as_record(plan, results)}
    return {**record, "explained": dict.fromkeys(results.entries, EXPLAINED)}


def test_the_page_in_the_repository_is_that_of_its_records() -> None:
    assert command.PAGE.read_text(encoding="utf-8") == page(command.read_records(command.RECORDS))


def test_nothing_run_is_nothing_measured() -> None:
    text = page({})
    assert text.count("Not measured.") == 7
    assert "## GPUs" in text


def test_ratios_and_aims_are_those_of_the_record() -> None:
    text = page({"throughput-random-150m-float32": throughput_record()})
    assert "| transformers-static | 1 | 3.00 | 1.50s, 1.50s | 1.50s, 1.50s | 1,024 MiB | 1 of 2 |" in text
    assert "| all at once, at least 4 times transformers-static | 3.00 | missed by 25.0% |" in text
    assert "| all at once, at least 0.9 times openvino |  | not measured |" in text
    assert "| all at once, under 5% of large steps is not the forward pass | 10.0% | missed by 5.0 points |" in text
    assert "| shared prefix, faster than transformers-static | 3.00 | met |" in text
    assert "| shared prefix, faster than openvino |  | not measured |" in text
    assert "2 questions of 8 to 24 tokens behind the same document of 1,024, 16 tokens out" in text
    assert "Not measured, openvino: no environment" in text
    assert "90.0% forward pass" in text
    assert "50% of the roofline" in text


def test_a_stream_is_as_fast_only_if_its_latencies_are() -> None:
    record = throughput_record()
    ours, theirs = (record["workloads"][STREAM][name] for name in (OURS, "transformers-static"))
    text = page({"throughput-random-150m-bfloat16": record})
    assert "| at least as fast as | transformers-continuous | transformers-static |" in text
    assert "| all at once | not measured | tokens/s 3.00, met |" in text
    assert "tokens/s 3.00, met; median first token 3.00, met; median between tokens 3.00, met |" in text
    ours["output_tokens_per_second"] = 0.985 * theirs["output_tokens_per_second"]
    ours["time_to_first_token"]["p50"] = 1.25 * theirs["time_to_first_token"]["p50"]
    text = page({"throughput-random-150m-bfloat16": record})
    assert "| tokens/s 0.98, met; median first token 0.80, missed by 20.0%; median between tokens 3.00, met |" in text
    ours["output_tokens_per_second"] = 0.931 * theirs["output_tokens_per_second"]
    assert "tokens/s 0.93, missed by 5.0%" in page({"throughput-random-150m-bfloat16": record})


def test_the_machine_has_no_name() -> None:
    assert set(describe_machine()) == {
        "cores",
        "architecture",
        "vectors",
        "memory_gib",
        "system",
        "python",
        "torch",
        "transformers",
    }


def test_one_command_runs_keeps_and_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "CHECKOUT", tmp_path.parent)
    monkeypatch.setattr(command, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.setattr(command, "RECORDS", tmp_path / "benchmarks")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--only", "prefix", "--only", "chunked"])
    command.main()
    record = json.loads((tmp_path / "benchmarks" / "prefix.json").read_text())
    text = (tmp_path / "benchmarks.md").read_text()
    assert "quick tries" in text
    assert f"| output tokens per second | {record['ratios']['output tokens per second']:.2f} |" in text
    assert "## `mini-vllm bench chunked`\n\n8 chats" in text
