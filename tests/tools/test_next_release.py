"""How the next release is recorded and compared. Only the last test needs vLLM itself."""

import copy
import gzip
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.case import PeerError
from mini_vllm_labs.bench.peer_process import VLLM_PYTHON
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, PUBLIC_FILES, Scenario, read_scenarios
from mini_vllm_labs.upkeep.next_release import __main__ as command
from mini_vllm_labs.upkeep.next_release.bounded import bounded
from mini_vllm_labs.upkeep.next_release.report import judged, summary
from mini_vllm_labs.upkeep.vllm_peer.install import install

Steps = list[dict[str, Any]]
NEWER = {scenario.name: scenario for scenario in read_scenarios(NEWER_FILES[0])}
CAP = NEWER["budget_cap"]


def refuse() -> None:
    raise ValueError(
        "1 validation error for SchedulerConfig\nwatermark\n  Unexpected keyword argument [type=unexpected]"
    )


@pytest.mark.parametrize(
    ("function", "outcome"),
    [
        (lambda: {"steps": []}, {"trace": {"steps": []}}),
        (refuse, {"refused": "Unexpected keyword argument"}),
        (lambda: [][1], {"crashed": "IndexError: list index out of range"}),
        (lambda: os._exit(3), {"crashed": "the process ended with 3"}),
        (lambda: time.sleep(60), {"endless": "no end within 0.2 seconds"}),
    ],
)
def test_a_scenario_is_refused_crashes_or_does_not_end_and_the_next_one_runs(
    function: Callable[[], Any], outcome: dict[str, Any]
) -> None:
    assert bounded(function, 0.2) == outcome


def changed(name: str, value: Any, step: int = 1) -> Callable[[Steps], object]:
    return lambda steps: steps[step].update({name: value})


@pytest.mark.parametrize(
    ("change", "verdict", "what"),
    [
        (lambda steps: None, "same", ""),
        (lambda steps: steps[1].pop("waiting_after"), "same", ""),  # a field that the release cannot report
        (lambda steps: steps[1]["scheduled"].pop(), "differs", "a new request is not scheduled"),
        (lambda steps: steps[1]["scheduled"].reverse(), "differs", "the order of the requests"),
        (lambda steps: steps[1]["scheduled"][1].update(n=7), "differs", "a running request: more tokens"),
        (lambda steps: steps[0]["scheduled"][0].update(hit=4), "differs", "a new request: more hit tokens"),
        (changed("preempted", [["B", "A", 0]]), "differs", "more victims"),
        (changed("finished_sent", ["A"]), "differs", "finished_sent"),
        (lambda steps: steps.pop(), "differs", "the number of steps"),
        (changed("free_after_update", 3), "same decisions", "free_after_update"),
        (
            lambda steps: steps[1]["scheduled"][0].update(new_blocks=[9]),
            "same decisions",
            "a running request: other new_blocks",
        ),
        (lambda steps: steps[1]["detail"].update(cached=[5]), "same decisions", "detail.cached"),
    ],
)
def test_the_first_difference_is_named_without_numbers(
    change: Callable[[Steps], object], verdict: str, what: str
) -> None:
    trace = copy.deepcopy(CAP.line["trace"])
    change(trace["steps"])
    found = judged(CAP, {"trace": trace})
    assert (found.verdict, found.what) == (verdict, what)


def test_the_report_counts_groups_and_checks_the_rules() -> None:
    lone, interval = NEWER["threshold_ignored_when_alone"], NEWER["prefill_interval_holds_chunks"]
    other = copy.deepcopy(lone.line["trace"])
    other["steps"][0]["scheduled"][0]["n"] -= 1
    outcomes: list[tuple[Scenario, dict[str, Any]]] = [
        (CAP, {"trace": CAP.line["trace"]}),
        (lone, {"trace": other}),
        (interval, {"refused": "vLLM 0.31.0 does not support prefill_schedule_interval"}),
    ]
    text = "\n".join(summary("0.31.0", [judged(*one) for one in outcomes]))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "kind same same decisions differs refused of" in lines
    assert "all 1 0 1 1 3" in lines
    assert "differs: a new request: fewer tokens: 1 (named 1)" in lines
    assert "refused: vLLM 0.31.0 does not support prefill_schedule_interval: 1 (named 1)" in lines
    assert "since 0.31 threshold_spares_lone_request differs: a new request: fewer tokens <- look here" in lines
    assert "look here" not in "\n".join(summary("0.30.0", [judged(lone, {"trace": other})]))


def test_traces_are_written_in_the_format_that_they_were_read_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "FILES", (tmp_path / "named33.jsonl",))
    (tmp_path / "named33.jsonl").write_text(json.dumps(CAP.line) + "\n", encoding="utf-8")
    outcome = {"name": CAP.name, "trace": CAP.line["trace"]}
    assert [one.verdict for one in command.written("0.34.0", [outcome], tmp_path / "out")] == ["same"]
    written = json.loads(gzip.decompress((tmp_path / "out" / "named33.jsonl.gz").read_bytes()))
    assert written["config"]["version"] == "0.34.0"
    assert (tmp_path / "out" / "findings.tsv").read_text() == "budget_cap\tnamed\tsame\t\n"
    with pytest.raises(PeerError, match="responded with 'other' to 'budget_cap'"):
        command.written("0.34.0", [{**outcome, "name": "other"}], tmp_path / "out")


@pytest.mark.parametrize("version", ["latest", "../0.13.0", "0.33.0 --pre"])
def test_only_a_version_is_installed(version: str) -> None:
    with pytest.raises(ValueError, match=r"a vLLM release must look like 0\.33\.0, got"):
        install(version)


@pytest.mark.skipif(
    not VLLM_PYTHON.exists() and not os.environ.get("REQUIRE_VLLM"),
    reason="`python -m mini_vllm_labs.upkeep.vllm_peer` makes the peer",
)
def test_the_stock_scheduler_decides_as_recorded(tmp_path: Path) -> None:
    kinds = {one.kind: one for path in PUBLIC_FILES[1:] for one in read_scenarios(path) if len(one.steps) < 60}
    chosen = [*(one for one, _ in zip(read_scenarios(PUBLIC_FILES[0]), range(5), strict=False)), *kinds.values()]
    assert len(chosen) > 12
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps(one.line) + "\n" for one in chosen), encoding="utf-8")
    arguments = [str(VLLM_PYTHON), "-m", "mini_vllm_labs.upkeep.next_release.record", "60", str(path)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(arguments, cwd=CHECKOUT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found = [judged(one, json.loads(line)) for one, line in zip(chosen, done.stdout.splitlines(), strict=True)]
    assert [one.line for one in found if one.verdict != "same"] == []
