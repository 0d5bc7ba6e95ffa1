"""Tests which line made each decision: against tracebacks taken in the functions, against the trace, and in a
browser."""

import json
import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm.core.request import Request
from mini_vllm_labs.fresh.jobs import WorkloadRun, play_with_lines, play_workload
from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.runs.starter_status import starter_path
from mini_vllm_labs.runs.traces.lines import Lines
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload
from solutions.phase2_block_pool import BlockPool
from tests.chromium import Pages
from tests.course.surface import solution_path
from tests.grading.checkout import Checkout
from tests.views.test_player_in_browser import UNGUARDED

WORKLOAD = make_workload(1, 8), SMALL_POOL, parse_lineup("solution:1-5")
PLACES = """
import json
from mini_vllm_labs.fresh.jobs import play_with_lines
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload
from mini_vllm.assembly.lineup import parse_lineup
run = play_with_lines(make_workload(1, 8), SMALL_POOL, parse_lineup("starter:1-5"))
print(json.dumps([[event.step, event.what, event.subject, event.places[0]] for event in run.recording.lines.events]))
"""


@cache
def run() -> WorkloadRun:
    return play_with_lines(*WORKLOAD)


def lines() -> Lines:
    found = run().recording.lines
    assert found is not None
    return found


def line_above() -> tuple[str, int]:
    """Return the innermost line of the reference on the stack, according to Python's own traceback."""
    frames = [frame for frame in traceback.extract_stack() if Path(frame.filename).parent.name == "solutions"]
    return Path(frames[-1].filename).relative_to(CHECKOUT).as_posix(), frames[-1].lineno or 0


def test_random_events_have_the_line_that_a_traceback_names(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[str, object, tuple[str, int]]] = []

    def watch(owner: type, name: str, what: str, subjects: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def watched(self: Any, *arguments: Any) -> Any:
            given = [*arguments[0]] if name == "free_blocks" else arguments
            place = line_above()
            result = original(self, *arguments)
            noted.extend((what, subject, place) for subject in subjects(self, given, result))
            return result

        monkeypatch.setattr(owner, name, watched)

    for name, what in (("admit", "admitted"), ("preempt", "preempted"), ("finish", "finished")):
        watch(Request, name, what, lambda self, given, result: [self.request_id])
    watch(BlockPool, "get_new_blocks", "allocated", lambda self, given, result: result)
    watch(BlockPool, "touch", "hit", lambda self, given, result: given)
    watch(BlockPool, "free_blocks", "freed", lambda self, given, result: given)
    found = play_with_lines(*WORKLOAD).recording.lines
    assert found is not None
    happened = [event for event in found.events if event.what not in ("refused", "passed")]
    events = sorted((event.what, str(event.subject), event.places[0]) for event in happened)
    assert events == sorted((what, str(subject), place) for what, subject, place in noted)
    assert {event.what for event in happened} == {what for what, _, _ in noted}, "no kind is missing"
    assert len({event.what for event in happened}) == 6
    for event in random.Random(1).sample(happened, 20):
        assert (event.what, event.subject, event.places[0]) in noted


def test_a_learners_starters_are_named_and_the_line_is_the_references(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, solutions=False)
    for phase in range(1, 6):
        shutil.copy(solution_path(phase), starter_path(phase, checkout.folder))
    command = [sys.executable, "-c", PLACES]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    assert {Path(file).name for *_, (file, _) in theirs} == {"starter.py"}
    ours = [
        [event.step, event.what, event.subject, [starter_of(event.places[0][0]), event.places[0][1]]]
        for event in lines().events
    ]
    assert theirs == ours


def starter_of(file: str) -> str:
    return f"labs/{Path(file).stem}/starter.py"


def test_the_events_and_the_lines_that_ran_are_those_of_the_trace() -> None:
    steps = run().recording.steps
    admitting = {line for event in lines().events if event.what == "admitted" for line in event.places[:1]}
    for step, record in enumerate(steps):
        now = [event for event in lines().events if event.step == step]
        assert [event.subject for event in now if event.what == "preempted"] == [one for one, *_ in record["preempted"]]
        finished = [one for one, *_ in record["finished"]]
        assert [event.subject for event in now if event.what == "finished"] == finished
        new = {block for share in record["scheduled"] for block in share["new_blocks"]}
        taken = {event.subject for event in now if event.what == "allocated"}
        assert new <= taken
        assert new == taken or record["preempted"], "only a victim's blocks are in no record"
        admitted = [share["id"] for share in record["scheduled"] if share["kind"] != "running"]
        assert [event.subject for event in now if event.what == "admitted"] == admitted
        assert admitting <= lines().ran[step] if admitted else not admitting & lines().ran[step]
    ((file, line),) = admitting
    assert lines().steps_of(file, line) == sorted({event.step for event in lines().events if event.what == "admitted"})


def test_every_line_that_ran_holds_code() -> None:
    for file, text in lines().sources.items():
        ran = {line for places in lines().ran for where, line in places if where == file}
        assert ran <= set(lines_with_code(compile(text, file, "exec"))), file


def lines_with_code(code: CodeType) -> Iterator[int]:
    yield from (line for *_, line in code.co_lines() if line)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from lines_with_code(inner)


def test_recording_changes_nothing_and_leaves_nothing() -> None:
    before = sys.gettrace()
    assert run().token_ids == play_workload(*WORKLOAD).token_ids
    assert play_workload(*WORKLOAD).recording.lines is None
    assert sys.gettrace() is before
    assert "lines" not in time_machine(play_workload(*WORKLOAD).recording).encode()


DECIDED = {
    "blocks": "return None",
    "seats": "while waiting and scheduler_output.token_budget > 0 and len(running) < max_num_seqs:",
    "tokens": "while waiting and scheduler_output.token_budget > 0 and len(running) < max_num_seqs:",
    "closed": "if memory_sufficed:",
    "behind": "break",
    "guard": "return num_needed + num_promised <= kv.num_free_blocks",
    "whole_prompt": "return 0",
}
"""The line of the reference that refuses, by reason."""


WHOLE_PROMPTS = {
    "enable_chunked_prefill": False,
    **dict.fromkeys(("max_model_len", "max_num_batched_tokens"), 36),
    "long_prefill_token_threshold": 0,
}


@pytest.mark.parametrize(
    ("settings", "special"),
    [
        ({}, set()),
        ({"admission_guard": True}, {"guard"}),
        (WHOLE_PROMPTS, {"whole_prompt"}),
    ],
)
def test_each_request_that_waits_has_the_line_that_refused_it(settings: dict[str, Any], special: set[str]) -> None:
    requests = [replace(one, prompt_token_ids=one.prompt_token_ids[:20]) for one in make_workload(1, 8)]
    recording = play_with_lines(requests, replace(SMALL_POOL, **settings), parse_lineup("solution:1-5")).recording
    assert recording.lines is not None
    seen = set()
    for step, record in enumerate(recording.steps):
        for name, found in record["reasons"].items():
            event = recording.lines.why(name, step)
            assert event is not None
            assert event.step == step
            if "preempted" in found["reason"]:
                assert event.what == "preempted"
                continue
            file, line = event.places[0]
            assert recording.lines.sources[file].splitlines()[line - 1].strip() == DECIDED[found["reason"]]
            seen.add(found["reason"])
    assert special <= seen
    assert special or seen == DECIDED.keys() - {"guard", "whole_prompt"}


def test_a_click_on_a_stretch_of_waiting_opens_the_line_that_refused(pages: Pages) -> None:
    page = open_widget(pages, player(time_machine(run().recording), 0))
    stretch = page.locator('[data-why="8"][data-request="3"]').first
    stretch.click()
    assert (page.evaluate("model.state.step"), page.evaluate("model.state.follow")) == (8, "request:3")
    words = "waits: it needs 5 blocks, and 3 are free (`allocate_slots`)"
    assert words in str(page.locator(".mvw-about").text_content())
    assert "was refused in step 8: solutions/phase2" in str(page.locator(".mvw-said").first.text_content())
    assert "return None" in str(page.locator(".mvw-decided").text_content())


def test_a_request_and_a_block_have_the_last_event_up_to_a_step() -> None:
    event = next(event for event in lines().events if event.what == "preempted")
    assert lines().why(event.subject, event.step) == event
    assert [place[0] for place in event.places] == [
        "solutions/phase3_preemption.py",
        "solutions/phase3_preemption.py",
        "solutions/phase1_scheduler_step.py",
        "solutions/phase1_scheduler_step.py",
    ]
    assert lines().why("nobody", 9) is None


def test_a_click_opens_the_line_and_a_line_its_steps(pages: Pages) -> None:
    event = next(event for event in lines().events if event.what == "preempted")
    page = open_widget(pages, player(time_machine(run().recording), event.step))
    key = f"request:{run().recording.info.index(str(event.subject))}"
    page.get_by_label("follow a request").select_option(key)
    (file, line), words = event.places[0], page.locator(".mvw-said").first
    assert f"was preempted in step {event.step}: {file}:{line}" in str(words.text_content())
    shown = page.locator(".mvw-decided")
    assert "request.preempt()" in str(shown.text_content())
    assert shown.is_visible()
    page.locator(".mvw-source span").nth(line + 1).click()  # two lines further down, after a comment
    steps = lines().steps_of(file, line + 2)
    found = page.locator(".mvw-said").last
    assert f"Line {line + 2} ran in {len(steps)} steps" in str(found.text_content())
    page.locator(".mvw-said").last.get_by_role("button").last.click()
    assert page.evaluate("model.state.step") == steps[-1]
    assert page.evaluate(UNGUARDED) == 0
    page.locator(".mvw-source").press("ArrowUp")
    assert f"Line {line + 1} ran in 0 steps" in str(found.text_content())


def test_a_click_on_a_block_names_who_asked_for_it(pages: Pages) -> None:
    page = open_widget(pages, player(time_machine(run().recording), 5))
    block = page.locator(".mvw-picture [data-block]:not([data-request])").first
    number = int(str(block.get_attribute("data-block")).split()[0])
    block.click()
    event = lines().why(number, 5)
    words = str(page.locator(".mvw-said").first.text_content())
    assert event is not None
    assert f"in step {event.step}: {event.places[0][0]}:{event.places[0][1]}" in words
