"""All benchmarks at tiny sizes: records and text show the same cases, and bad input is rejected with a message."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mini_vllm_labs.bench import peer_process, scheduler, scheduling
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.engine_benchmarks import AT_A_TEMPERATURE, GRAMMARS, GREEDY
from mini_vllm_labs.cli.bench import measured
from mini_vllm_labs.cli.bench.main import COMMANDS
from tests.bench.conftest import executable
from tests.cli.conftest import Commands

Check = Callable[[list[Case]], bool]
QUICK = ("--quick", "--threads", 1)
WHOLE_PROMPTS = "solution:1-4,solution:6"
PEER = ("scheduler", "--peer", "vllm")
TINY = {"NUM_ROUNDS": 2, "NUM_ADMISSIONS": 20, "LARGE_POOL": 20_000, "NUM_QUEUED": 500}
TINY |= {"LOOKED_UP_TOKENS": 400, "NUM_LOOK_UPS": 1}
SIDES = {"mini-vLLM": {"values": [2.0, 2.0, 6.0]}, "vLLM 0.13.0": {"values": [8.0, 10.0, 10.0]}}
BESIDE = {"title": "decode, 16 running", "unit": "us", "base": "vLLM 0.13.0", "notes": [], "base_over_side": False}
BESIDE |= {"sides": {name: {**side, "figures": {}, "equal": [0, 0]} for name, side in SIDES.items()}}


def figure(case: Case, side: str, name: str) -> float:
    return case.sides[side].figures[name].value


def gains(figure_name: str, factor: float) -> Check:
    """Return a check that a feature changes a figure by more than `factor`, downward if `factor` is below 1."""

    def check(cases: list[Case]) -> bool:
        [case] = cases
        times = figure(case, "with it", figure_name) / figure(case, "without", figure_name)
        return times < factor if factor < 1 else times > factor

    return check


def prompts_are_cut(cases: list[Case]) -> bool:
    return figure(cases[0], "with it", "largest step") <= 128 < figure(cases[0], "without", "largest step")


def drafts_save_steps(cases: list[Case]) -> bool:
    copying = [case for case in cases if case.title.startswith("copies")]
    saved = all(figure(case, "4 drafts", "steps") < figure(case, "no drafts", "steps") for case in copying)
    accepted = all(0 < figure(case, "4 drafts", "draft 1 accepted") <= 1 for case in cases)
    return len(cases) == 4 and [len(case.sides) for case in cases] == [7, 4, 7, 4] and saved and accepted


def passes_are_counted(cases: list[Case]) -> bool:
    sides = [side.figures for case in cases for side in case.sides.values()]
    return all(one["passes"].value == 96 and 0 < one["outside the passes"].value < 1 for one in sides)


def masks_are_timed(cases: list[Case]) -> bool:
    ways = [GREEDY, *AT_A_TEMPERATURE, *GRAMMARS]
    shares = [figure(case, way, "masks") for case in cases for way in GRAMMARS]
    return all(list(case.sides) == ways for case in cases) and all(0 < share < 0.7 for share in shares)


def prefixes_hit_more(cases: list[Case]) -> bool:
    hits, waits = cases
    return hits.sides["prefix-aware"].median > hits.sides["round robin"].median and waits.unit == "s"


def all_costs(count: int) -> Check:
    def check(cases: list[Case]) -> bool:
        assert list(cases[0].sides) == list(cases[1].sides) == ["4 running", "8 running"]
        return len(cases) == count

    return check


RUNS: list[tuple[tuple[object, ...], str, Check]] = [
    (("prefix", *QUICK), "solution", gains("tokens computed", 0.5)),
    (
        ("prefix", *QUICK, "--lineup", "solution:1-4,solution:6"),
        "solution:1-4,solution:6",
        gains("tokens computed", 0.5),
    ),
    (("chunked", *QUICK), "solution", prompts_are_cut),
    (("preemption", *QUICK), "solution", gains("most at once", 1.01)),
    (("preemption", "--swap", *QUICK), "solution:1-14", lambda cases: len(cases) == 4 and "here" in cases[-1].title),
    (("speculative", *QUICK), "solution:1-7", drafts_save_steps),
    (("async", *QUICK), "solution:1-6,solution:8", passes_are_counted),
    (("sampling", *QUICK), "solution:1-6,solution:9", masks_are_timed),
    (("router", "chat", "--requests", 200, "--replicas", 3), "solution", prefixes_hit_more),
    (("scheduler",), "solution:1-5", all_costs(7)),
    (("scheduler", "--lineup", "solution:1"), "solution:1", all_costs(4)),
    (("scheduler", "--lineup", "solution:1-3"), "solution:1-3", all_costs(6)),
    (PEER, "solution:1-5", lambda cases: cases[0].ratio("mini-vLLM") == 0.25),
]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in TINY.items():
        monkeypatch.setattr(scheduler, name, value)
    monkeypatch.setattr(scheduling, "RUNNING", (4, 8))
    monkeypatch.setattr(peer_process, "VLLM_PYTHON", executable(tmp_path, f"print({json.dumps(BESIDE)!r})"))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("command", "lineup", "check"), RUNS, ids=[" ".join(map(str, one[0])) for one in RUNS])
def test_a_benchmark_runs_and_its_record_and_text_agree(
    mini_vllm: Commands, command: tuple[object, ...], lineup: str, check: Check
) -> None:
    threads = torch.get_num_threads()
    shown = mini_vllm("bench", *command, "--json")
    torch.set_num_threads(threads)
    record = json.loads(shown.stdout)
    cases = [Case.read(one) for one in record["cases"]]
    assert json.loads(json.dumps([asdict(case) for case in cases])) == record["cases"]
    assert record["lineup"] == lineup
    assert len(record["load"]) == 2
    text = " ".join(shown.stderr.split())
    for case in cases:
        assert " ".join(case.heading.split()) in text
        assert all(f"{name} █" in text and case.spread(name) in text for name in case.sides)
        assert case.same_answers
        assert all(min(side.values) >= 0 for side in case.sides.values())
    # A small model chooses a single thread when it is loaded, whatever number was requested.
    assert 2 not in command or "threads: 2" in cases[0].title
    assert check(cases)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("speculative", "--lineup", "solution"), "the lineup solution, which lacks speculation"),
        (("async", "--lineup", "solution:1-7"), "the lineup solution:1-7, which lacks async_scheduling"),
        (("chunked", "--lineup", "solution:1-4,solution:6"), "which lacks chunking"),
        (("sampling", "--lineup", "solution:1-5"), "which lacks runner"),
        (("throughput", "--lineup", "solution:1-5"), "throughput needs phase 6"),
        (("throughput", "--peers", "vllm2"), "--peers vllm2: choose from"),
        (("throughput", "--batch", "1.5"), "--batch 1.5: give whole numbers of at least 1"),
        (("throughput", "--temperature", "hot"), "--temperature hot: give numbers of at least 0"),
        (("int8", "--lineup", "solution:1-5"), "int8 needs phase 6"),
        (("busy", "--models", "huge"), "--models huge: choose from embedded"),
        (("busy", "--busy", "1.5"), "--busy 1.5: give whole numbers of at least 0"),
        (("throughput", "--model", "nowhere"), "there is no config.json in nowhere"),
        (("serve", "--extra-body", "7", "--base-url", "http://127.0.0.1:1"), "--extra-body must be a JSON object"),
        (("serve", "--goodput", "itl:3"), "NAME:MILLISECONDS, where NAME is one of ttft, tpot, e2el"),
        (("serve", "--workload", "poems"), "sharegpt, chat, documents, shared-prefix, mixed, got 'poems'"),
        (("serve", "--request-rate", "0"), "request_rate must be greater than 0"),
        (("serve", "--quick", "--base-url", "http://127.0.0.1:1"), "answered none of 8 requests; the first error: no"),
        (("serve", "--base-url", "127.0.0.1:8000"), "base_url must be http://HOST:PORT"),
        (("router", "poems"), "poems"),
        (("gpu", "all"), "unknown part 'all'"),
        (("gpu",), "needs an NVIDIA GPU, but torch finds none on this machine"),
        ((*PEER, "--peer-version", "0.14.0"), "must be one of the releases 0.13.0, 0.33.0"),
        (PEER, "`python -m mini_vllm_labs.upkeep.vllm_peer` installs it"),
    ],
)
def test_bad_input_is_refused_in_words(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setattr(peer_process, "VLLM_PYTHON", Path("nowhere"))
    assert reason in " ".join(mini_vllm("bench", *command, exit_code=2).stderr.split())


@pytest.mark.usefixtures("tiny")
def test_vllms_process_that_breaks_off_is_named_with_its_last_words(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "needs phase 2" in mini_vllm("bench", *PEER, "--lineup", "solution:1", exit_code=2).output
    broken = executable(tmp_path, "raise SystemExit('no vllm here')")
    monkeypatch.setattr(peer_process, "VLLM_PYTHON", broken)
    assert "exited early; its last line: no vllm here" in mini_vllm("bench", *PEER, exit_code=1).output


@pytest.mark.parametrize("name", [name for name, *_ in COMMANDS if name != "gpu"])
def test_the_time_is_told_before_anything_starts(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def starting(*given: object) -> None:
        raise ValueError("this is the start")

    monkeypatch.setattr(measured, "reported", starting)
    shown = " ".join(mini_vllm("bench", name, exit_code=2).stderr.split())
    before, _, _ = shown.partition("this is the start")
    assert "on two quiet cores" in before, shown


@pytest.mark.parametrize(
    ("seconds", "amount"), [(3, "10 seconds"), (44, "40 seconds"), (89, "90 seconds"), (91, "2 minutes"), (580, "10 m")]
)
def test_the_time_is_told_in_round_numbers(capsys: pytest.CaptureFixture[str], seconds: float, amount: str) -> None:
    with measured.measuring("Measuring", seconds) as report:
        report("part 1", found="part 1: 7 tokens/s")
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.startswith(f"About {amount}")
    assert second == "part 1: 7 tokens/s"


def test_without_a_load_average_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "os", SimpleNamespace(cpu_count=lambda: 2))
    assert measured.load_line(measured.load()) == "Machine load: None at the start, None at the end; CPUs: 2."
