"""Every request without a token in a step has one reason, which must be true for the code that ran."""

import gzip
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import EngineConfig
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.reasons import LIMITS, REASONS, Found, limit_sentence, sentence_of
from mini_vllm.engine.step_reasons import StepReasons
from mini_vllm_labs.runs.parity.replay import ScenarioReplay
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, PUBLIC_FILES, Scenario, read_scenarios
from tests.engine.reasons_again import Trace

ALL = parse_lineup("solution:1-14")
EVERY = int(os.environ.get("REASONS_EVERY", "70"))
"""All 1,853 recorded scenarios: `REASONS_EVERY=1 pytest tests/engine/test_reasons.py`, four minutes."""


def explained(scenario: Scenario) -> Iterator[tuple[dict[str, Any], ScenarioReplay]]:
    replay = ScenarioReplay(scenario, ALL, explain=True)
    for number in range(len(scenario.steps)):
        yield dict(replay.run_step(number)), replay


@pytest.mark.parametrize("path", [*PUBLIC_FILES, *NEWER_FILES], ids=lambda path: path.name)
def test_each_unfinished_request_has_a_share_or_a_reason(path: Path) -> None:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in islice(file, 0, None, EVERY)]  # parsing all traces takes most of the time
    for scenario in (Scenario({"defects": [], **line}) for line in lines):
        living: set[str] = set()
        for step, _ in explained(scenario):
            where = f"step {step['step']} of {scenario.name}"
            living = (living | set(step["added"])) - set(step["aborted"])
            shares = {share["id"] for share in step["scheduled"]}
            assert step["reasons"].keys() == living - shares, where
            for found in step["reasons"].values():
                assert sentence_of(found), where
                assert not REASONS[found["reason"]].breaks_rule, f"{where}: {sentence_of(found)}"
            for name, found in step["limits"].items():
                assert name in shares, where
                assert limit_sentence(found), where
                assert found["limit"] != "chunks", where
            living -= {name for name, *_ in step["finished"]} | set(step["aborted_before_update"])


def is_plain(scenario: Scenario) -> bool:
    config = scenario.line["config"]
    settings = (config["async_scheduling"], config["spec"], config.get("long_prefill_token_threshold_adaptive"))
    events = {name for event in scenario.line["events"] for name in event}
    special = scenario.has_gates or scenario.defects or events & {"pause", "reset"}
    return not (special or any(settings) or config.get("prefill_schedule_interval", 1) > 1)


PLAIN = [one for path in (PUBLIC_FILES[0], NEWER_FILES[0]) for one in read_scenarios(path) if is_plain(one)]


@pytest.mark.parametrize("scenario", PLAIN, ids=lambda one: one.name)
def test_reasons_equal_those_recomputed_from_the_recording(scenario: Scenario) -> None:
    tokens: dict[str, list[int]] = {name: scenario.prompt(name) for name in scenario.line["requests"]}
    again = Trace(scenario.line["config"], tokens.__getitem__)
    for (ours, _), recorded in zip(explained(scenario), scenario.steps, strict=True):
        waiting = {name: found for name, found in ours["reasons"].items() if name in recorded["waiting_after"]}
        expected = again.step(recorded)
        assert waiting == expected, f"step {recorded['step']}"
        for name, new in recorded["output"]:
            tokens[name] = tokens[name] + new


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"reason": "blocks", "needed": 1, "free": 1}, "it needs 1 block, and 1 is free"),
        ({"reason": "blocks", "needed": 21, "free": 11}, "it needs 21 blocks, and 11 are free"),
        ({"reason": "seats", "running": 1, "seats": 1}, "1 of 1 seats are taken"),
        ({"reason": "whole_prompt", "left": 1, "needed": 4}, "1 token is left, and its 4 must fit into one step"),
        ({"reason": "refused", "needed": 1, "free": 1}, "it was refused although 1 block was free and it needs 1"),
        ({"reason": "no_tokens", "left": 1}, "it got no token although 1 was left"),
    ],
)
def test_one_is_singular(found: Found, sentence: str) -> None:
    assert sentence_of(found) == sentence


CONFIG = EngineConfig(max_num_seqs=2, max_num_batched_tokens=8, max_model_len=16, block_size=4, num_gpu_blocks=6)


def scheduler_of_two() -> Scheduler:
    scheduler = build_scheduler(CONFIG.resolved(16, 6), parse_lineup("solution:1-5"))
    for name in ("r0", "r1"):
        scheduler.add_request(Request(name, [1, 2, 3, 4, 5]))
    return scheduler


@pytest.mark.parametrize(
    ("part", "method", "answer", "sentences"),
    [
        (
            *("kv", "allocate_slots", None),
            ["it was refused although 5 blocks were free and it needs 2", "r0 comes first and was refused"],
        ),
        ("chunks", "num_new_tokens", 0, ["it got no token although 8 were left", "r0 comes first and was refused"]),
        (
            *("functions", "schedule_step", SchedulerOutput(8)),
            ["the step passed it over although 8 tokens, 2 seats and 5 blocks were left"] * 2,
        ),
    ],
)
def test_reasons_distinguish_mistakes_in_phases(part: str, method: str, answer: object, sentences: list[str]) -> None:
    scheduler = scheduler_of_two()
    object.__setattr__(scheduler, part, Replaced(getattr(scheduler, part), method, answer))
    found, limits = StepReasons(scheduler, CONFIG).of_step(scheduler.schedule())
    assert ([sentence_of(one) for one in found.values()], limits) == (sentences, {})


class Replaced:
    """A part in which one method always returns the same value."""

    def __init__(self, inner: object, method: str, answer: object) -> None:
        self.inner, self.method, self.answer = inner, method, answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name) if name != self.method else lambda *_, **__: self.answer


def test_phases_receive_the_parts_themselves_unless_a_run_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, received = scheduler_of_two(), list[Any]()
    monkeypatch.setattr(type(scheduler.chunks), "admits", lambda *arguments: received.append(arguments[-1]))
    scheduler.schedule()
    StepReasons(scheduler, CONFIG)
    scheduler.schedule()
    assert [kv is scheduler.kv for kv in received] == [True, False]


def page_rows(*, limits: bool = False) -> str:
    if limits:
        return "".join(f"| `{name}` | {text} |\n" for name, text in LIMITS.items())
    return "".join(f"| `{r.name}` | {r.mark} | {r.label} | {r.sentence} |\n" for r in REASONS.values())


def test_the_page_lists_the_vocabulary() -> None:
    page = (CHECKOUT / "docs" / "reasons.md").read_text(encoding="utf-8")
    for rows in (page_rows(), page_rows(limits=True)):
        assert rows in page, f"docs/reasons.md must contain:\n{rows}"
