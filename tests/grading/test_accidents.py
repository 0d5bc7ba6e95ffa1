"""Each accident in a submission costs only the points that it should, and the grade names it."""

import sys
from typing import Any

import pytest

from mini_vllm_labs.runs.sandbox.late_tests import LATE_TESTS_OF_TASK
from tests.grading.accidents import ACCIDENTS, Accident
from tests.grading.checkout import Checkout

WITHOUT_FORK = ("segfault", "loop that swallows all", "state that outlives a test", "interrupt")


def grade_all(checkout: Checkout, accidents: list[Accident], **environment: str) -> dict[str, Any]:
    """Grade many accidents, at most one per phase at a time; return each accident's phase grade."""
    checkout.thin_out(6)
    found: dict[str, Any] = {}
    waiting = list(accidents)
    while waiting:
        together = {accident.phase: accident for accident in reversed(waiting)}
        for phase, accident in together.items():
            content = accident.content()
            checkout.starter(phase).unlink(missing_ok=True)
            if content is not None:
                checkout.starter(phase).write_bytes(content)
        for phase in {1, 2, 3, 4, 5} - set(together):
            checkout.solve(phase)
        graded = checkout.grade("--phase", "1-5", engines=False, **environment)
        assert graded["exit code"] == any(accident.error for accident in together.values())
        found |= {accident.name: graded["phases"][phase - 1] for phase, accident in together.items()}
        waiting = [accident for accident in waiting if accident not in together.values()]
    return found


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return grade_all(Checkout(tmp_path_factory.mktemp("course")), list(ACCIDENTS))


@pytest.fixture(scope="module")
def graded_without_fork(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    checkout = Checkout(tmp_path_factory.mktemp("course"))
    chosen = [accident for accident in ACCIDENTS if accident.name in WITHOUT_FORK]
    return grade_all(checkout, chosen, MINI_VLLM_GRADE_FORK="0")


def check(accident: Accident, phase: dict[str, Any]) -> None:
    if accident.error:
        assert accident.message in (phase["error"] or "")
        assert phase["points"] == 0
        assert {task["status"] for task in phase["tasks"]} == {"error"}
        return
    assert phase["error"] is None
    tasks = dict(enumerate(phase["tasks"], start=1))
    points = {number: task["points"] for number, task in tasks.items()}
    assert {number: points[number] for number in accident.spared} == dict.fromkeys(accident.spared, 10)
    assert all(points[number] < 10 for number in accident.charged), points
    messages = [test["message"] for task in tasks.values() for test in task["tests"] if test["outcome"] != "passed"]
    assert not accident.message or any(accident.message in message for message in messages), messages[:3]
    for task in tasks.values():
        outcomes = [test["outcome"] for test in task["tests"]]
        assert "not run" not in outcomes or outcomes.count("timeout") == LATE_TESTS_OF_TASK


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: accident.name)
def test_an_accident_costs_what_it_should(accident: Accident, graded: dict[str, Any]) -> None:
    check(accident, graded[accident.name])


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("name", WITHOUT_FORK)
def test_the_same_holds_where_tests_share_a_process(name: str, graded_without_fork: dict[str, Any]) -> None:
    (accident,) = (accident for accident in ACCIDENTS if accident.name == name)
    check(accident, graded_without_fork[name])


def test_a_renamed_function_is_named_with_its_new_name(graded: dict[str, Any]) -> None:
    assert graded["renamed function"]["missing"] == ["preempt is missing from starter.py (there is 'preempt_it')"]


def test_an_endless_loop_is_shown_with_its_line(graded: dict[str, Any]) -> None:
    messages = [test["message"] for test in graded["endless loop"]["tasks"][3]["tests"]]
    assert any("in usage: while True: pass" in message for message in messages)
