"""The results page shows the contents of the records, and lists what was not measured."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.bench.case import Case, Side
from mini_vllm_labs.bench.engine_cases import EMBEDDED, WIDE
from mini_vllm_labs.bench.plan import ALL_AT_ONCE, OURS, SHARED_PREFIX, STREAM
from mini_vllm_labs.bench.serve.http_cost import OFFLINE, STREAMED
from mini_vllm_labs.bench.throughput import MEDIANS
from mini_vllm_labs.upkeep.benchmarks import __main__ as command
from mini_vllm_labs.upkeep.benchmarks.__main__ import describe_machine
from mini_vllm_labs.upkeep.benchmarks.page import page
from tests.snapshots import Snapshots

EXPLAINED = {"forward pass": 0.9, "batch and sampling": 0.06, "scheduling and outputs": 0.04}
EXPLAINED |= {"share_of_roofline": 0.5, "overhead": 0.1}
OPERATORS = {"everything else": 1.0, "matrix products": 3.0}
MACHINE = {
    **{"cores": 2, "architecture": "x86_64", "vectors": "avx2", "memory_gib": 16, "system": "Debian 12"},
    **{"python": "3.11", "torch": "2.8", "transformers": "4.57"},
}
SHELL = {"machine": MACHINE, "quick": False}


def case(title: str, base: str, sides: dict[str, list[float]], unit: str = "tokens/s", **more: Any) -> dict[str, Any]:
    return asdict(Case(title, unit, base, {name: Side(values) for name, values in sides.items()}, **more))


def record(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**SHELL, "lineup": "solution", "load": [0.5, 1.25], "cpus": 2, **more, "cases": list(cases)}


def throughput_record(tokens: float = 3.0, first_token: float = 3.0) -> dict[str, Any]:
    """Return a record whose stream case has these ratios of tokens per second and of time to first token."""
    cases = []
    for title, ratio in ((ALL_AT_ONCE, 3.0), (STREAM, tokens), (SHARED_PREFIX, 3.0)):
        sides = {OURS: [100.0 * ratio, 110.0 * ratio], "transformers-static": [100.0, 110.0]}
        made = case(title, OURS, sides, notes=["2 requests."], base_over_side=True)
        for name, seconds in ((OURS, 1.0), ("transformers-static", first_token if title == STREAM else 3.0)):
            latencies = {f"{words} p50": (seconds, "s") for words in MEDIANS}
            made["sides"][name] |= {"figures": latencies, "equal": (1, 2)}
        cases.append(made)
    plan = {"dtype": "float32", "num_threads": 2}
    facts = {"model": "random-150m", "plan": plan, "max_num_batched_tokens": 512, "kv_cache_tokens": 64}
    facts |= {"missing": {"openvino": "no environment"}, "versions": {"llama-cpp": "5.0"}}
    facts |= {"explained": dict.fromkeys((ALL_AT_ONCE, STREAM, SHARED_PREFIX), EXPLAINED)}
    return record(*cases, **facts, num_parameters=150_900_000, seconds_by_operator=OPERATORS)


def test_the_page_in_the_repository_is_that_of_its_records() -> None:
    assert command.PAGE.read_text(encoding="utf-8") == page(
        command.read_records(command.RECORDS), command.RECORDS / "gpu"
    )


def test_nothing_run_is_nothing_measured() -> None:
    text = page({})
    assert text.count("Not measured.") == 13
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
    found = Case.read(record["cases"][0])
    assert f"| with it | {found.spread('with it')} | {found.ratio('with it'):.2f} | 4 of 4 | first token p50 " in text
    assert '## `mini-vllm bench chunked`\n\nThe "With it" variant computes at most 128 tokens per step' in text


def test_a_record_describes_its_machine_whatever_its_benchmark_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = subprocess.CompletedProcess([], 0, stdout='{"machine": "x86_64", "clock": "process_time"}')
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    monkeypatch.setattr(command, "RECORDS", tmp_path)
    command.run("scheduler", quick=False)
    record = command.read_records(tmp_path)["scheduler"]
    assert record == {"machine": describe_machine(), "quick": False, "clock": "process_time"}


def beside_vllm() -> dict[str, Any]:
    """A decode that meets its aim, one that does not, and an admission that does."""
    ratios = {"decode, 16 running": 0.2513, "decode, 64 running": 0.21, "arrival": 0.7, "admission": 0.3}
    sides = {title: {"mini-vLLM": [10 * ratio], "vLLM 0.13.0": [10.0]} for title, ratio in ratios.items()}
    return record(*(case(title, "vLLM 0.13.0", one, "us") for title, one in sides.items()), num_admissions=2000)


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
    rates = {
        "greedy": [100.0, 90.0, 110.0],
        "temperature 0.8": [91.0, 92.0, 80.0],
        "temperature 0.8 with two cuts": [79.0],
    }
    works = [f"{model}, batch {size}" for model, size in ((EMBEDDED, 1), (EMBEDDED, 64), (WIDE, 64))]
    return record(*(case(f"32 input tokens; {work}, threads: 2", "greedy", rates) for work in works))


def beside_busy_processes() -> dict[str, Any]:
    """A case in which the default is near the best fixed choice, and one in which it is not."""
    fixed = {"one thread": [100.0, 110.0], "all, spinning": [10.0, 12.0], "all, passive": [50.0, 40.0]}
    rates = {2: [95.0, 105.0], 8: [70.0, 77.0]}
    titles = {count: f"embedded, batch 1, busy processes: {count}" for count in rates}
    return record(*(case(titles[count], "default", {"default": rates[count], **fixed}) for count in rates))


def serving() -> dict[str, Any]:
    """Servers with measured rates, three aims (missed, not found and met), and three rounds of HTTP."""
    rates = case("The highest rate", OURS, {OURS: [56.0], "always-held": [10.0]}, "requests/s", base_over_side=True)
    rates["notes"] = ["never-held: 10.00 requests/s, p99 TTFT 4000 ms: does not hold"]
    ways = {OFFLINE: [4000.0, 4400.0, 4200.0], STREAMED: [3000.0, 3900.0, 3800.0]}
    aims = (("three times the rate", 2.91, False), ("nothing found", None, False), ("cheap HTTP", 0.0987, True))
    facts: dict[str, Any] = {"model": "embedded", "missing": {"openvino": "no environment"}}
    facts["aims"] = [dict(zip(("text", "found", "met"), aim, strict=True)) for aim in aims]
    return record(rates, case("64 streams computed at once", OFFLINE, ways), **facts)


def test_the_page_is_as_it_was_reviewed(snapshots: Snapshots) -> None:
    streams = {"as-fast": (3.0, 3.0), "late": (0.985, 0.8), "slow": (0.931, 1.0)}
    records = {f"throughput-{name}": throughput_record(*one) for name, one in streams.items()}
    feature = case("2 requests", "without", {"with it": [10.0, 12.0], "without": [10.0, 8.0]})
    costs = case("A decode", "16 running", {"16 running": [1.5, 1.6], "1,024 running": [3.1]}, "us")
    records |= {"preemption": record(feature), "scheduler": record(costs, load=None), "calibrate": predictions()}
    records |= {"beside-vllm": beside_vllm(), "sampling": sampling(), "busy": beside_busy_processes()}
    snapshots.check("benchmarks", page({**records, "serve-on-embedded": serving()}))
