"""Points: all for the reference and for fair alternatives; fewer for mistakes, only in their own phase."""

import functools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mini_vllm_labs.classroom.judge import judge as judging
from mini_vllm_labs.classroom.judge import worker as jailed
from mini_vllm_labs.classroom.judge.groups import TEST_GROUPS
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.memory_watch import cpu_seconds
from mini_vllm_labs.classroom.judge.results import Outcome, SubmissionGrade, is_written
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.classroom.judge.worker import JailedWorker, Workers
from mini_vllm_labs.grading.plan import PlannedPhase, load_plan, load_whole_plan
from mini_vllm_labs.runs.starter_status import starter_path
from tests.grading.checkout import solution
from tests.judge.__main__ import thinned
from tests.judge.files import fair_texts, mutant, solved
from tests.mutants.catalog import PHASES
from tests.serving.running import wait_until

MISTAKES = [
    {1: "clamp forgets the budget", 3: "queue ignores the arrival time", 5: "ignores the threshold"},
    {1: "update frees in running order instead of step order", 4: "the hash forgets the parent"},
    {2: "removing a block that is not in the queue is ignored", 6: "positions count from the chunk"},
]


SETTINGS = JudgeSettings("tests", situations=2)
PHASES_OF_THE_COURSE = SETTINGS.phases


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(SETTINGS, Jail())


def points(grade: SubmissionGrade) -> list[float]:
    return [phase["points"] for phase in grade.phases]


def together(grade: SubmissionGrade) -> tuple[str, int]:
    found = grade.result()["together"]
    return found["status"], found["up_to_phase"]


def points_judged(phase: PlannedPhase) -> int:
    """The last task is the whole phase in an engine, which is how all judge situations already run."""
    return sum(task.points for task in phase.tasks[:-1])


def test_a_phase_is_worth_what_it_is_in_the_plan() -> None:
    for phase in load_plan():
        assert sum(group.points for group in TEST_GROUPS if group.phase == phase.number) == points_judged(phase)


def test_the_reference_gets_all_points_in_a_jail(jail: Jail) -> None:
    graded = Judge(replace(SETTINGS, seconds=20), jail).grade(solved())
    assert points(graded) == list(map(points_judged, load_plan()))
    assert together(graded) == ("pass", 5)


@pytest.mark.parametrize("phase", sorted({one.number for one in load_whole_plan()} - {*PHASES_OF_THE_COURSE}))
def test_the_reference_of_an_elective_gets_all_points_in_a_jail(jail: Jail, phase: int) -> None:
    graded = Judge(replace(SETTINGS, seconds=20, phases=(phase,)), jail).grade(solved(phase))
    (found,) = graded.phases
    assert found["points"] == found["max"]


@pytest.mark.parametrize("mistakes", MISTAKES, ids=lambda mistakes: "-".join(map(str, mistakes)))
def test_a_mistake_costs_points_in_its_own_phase_only(judge: Judge, mistakes: dict[int, str]) -> None:
    texts = {f"phase{phase}": mutant(phase, name) for phase, name in mistakes.items()}
    graded = judge.grade(solved(*{*mistakes, 1, 2}, **texts))
    lost = {found["phase"]: found["max"] - found["points"] for found in graded.phases if not found["error"]}
    assert {number for number, points in lost.items() if points} == set(mistakes)
    for number in mistakes:
        assert lost[number] < graded.phases[number - 1]["max"], "one mistake must not cost a whole phase"


@pytest.mark.parametrize(
    ("phase", "name", "title"),
    [
        (2, "num_free_blocks walks the free queue", "block tables"),
        (4, "a lookup copies all hashes for each block", "hits"),
        (7, "copies the text, and compares each token with all before it", "prompt lookup"),
        (
            *(1, "an update remembers finished requests in an attribute of the function"),
            "what happens to sampled tokens",
        ),
        (3, "keeps the last victim", "preempting, first come first served"),
        (4, "the hit rate forgets what is long ago", "what is cached"),
    ],
)
def test_costs_and_what_is_left_behind_are_asked_about(phase: int, name: str, title: str) -> None:
    judge = Judge(replace(SETTINGS, situations=5, seconds=30, phases=(phase,)), Jail())
    judge.groups = [group for group in judge.groups if group.title == title]
    graded = judge.grade(Submission(name, {phase: mutant(phase, name).encode()}))
    assert graded.failures, "it gets full marks"


def test_a_hash_that_changes_with_every_start_is_caught_in_a_jail(jail: Jail) -> None:
    """The jail forbids starting processes, so the file is loaded a second time instead."""
    salted = solution(4).replace("hashlib.sha256(parent_hash", "hashlib.sha256(SALT + parent_hash")
    judge = Judge(replace(SETTINGS, seconds=30, phases=(4,)), jail)
    judge.groups = [group for group in judge.groups if group.title == "hashes"]
    for text in (solution(4), f"import os\n{salted}\nSALT = os.urandom(8)\n"):
        graded = judge.grade(Submission("salted", {4: text.encode()}))
        assert bool(graded.failures) == ("SALT" in text)


# `python -m tests.judge` runs all of them
FAIR = [(phase, name) for phase in PHASES for name in thinned(fair_texts(phase), 6)]
FAIR.append((2, "commits and drops one block per call"))  # the judge's prefix cache once guessed a size for these


@functools.cache
def judge_of(phase: int) -> Judge:
    return Judge(replace(SETTINGS, seconds=30, phases=(phase,)), Jail())


@pytest.mark.parametrize(("phase", "name"), FAIR)
def test_a_fair_alternative_gets_all_points(phase: int, name: str) -> None:
    graded = judge_of(phase).grade(Submission(name, {phase: fair_texts(phase)[name].encode()}))
    assert (graded.failures, points(graded)) == ({}, [graded.result()["max"]])


def test_the_same_seed_gives_the_same_results(judge: Judge) -> None:
    wrong = solved(2, 3, phase2=mutant(2, "append forgets to count"), phase3="x = ")
    one, other = (each.grade(wrong).result() for each in (judge, Judge(SETTINGS, Jail())))
    assert one == other
    assert str(one["phases"][2]["error"]).startswith("The file cannot be loaded")


def test_other_seeds_give_other_situations() -> None:
    group = next(group for group in TEST_GROUPS if group.title == "shared blocks")
    one, two = (Judge(JudgeSettings(seed), Jail()).situation(group, 0) for seed in ("one", "two"))
    assert one.arguments != two.arguments


def test_untouched_starters_are_not_written() -> None:
    starters = {phase: starter_path(phase).read_bytes() for phase in (1, 2, 3, 4, 5)}
    graded = Judge(replace(SETTINGS, situations=1), Jail()).grade(Submission("new", starters))
    assert graded.result()["points"] == 0
    assert not any(map(is_written, graded.phases))
    assert together(graded) == ("-", 0)


def test_a_mistake_of_one_phase_shows_together(judge: Judge) -> None:
    graded = judge.grade(solved(1, 2, phase1=mutant(1, "takes an empty list for a refusal")))
    assert together(graded) == ("fail", 2)
    assert graded.phases[1]["points"] == graded.phases[1]["max"]


def test_a_budget_ends_a_submission_with_the_points_it_has() -> None:
    judge = Judge(JudgeSettings("tests", minutes=0, phases=(1,)), Jail())
    grade = judge.grade(Submission("ada", {1: solution(1).encode()}))
    assert {status for group in grade.phases[0]["groups"] for status in group["situations"]} == {"not played"}


@pytest.mark.parametrize(("used", "tries"), [(9.9, [10]), (8.0, [10]), (5.0, [10, 40]), (0.0, [10, 40])])
def test_only_a_worker_that_lacked_a_processor_gets_more_time(used: float, tries: list[float]) -> None:
    """The first try may take ten seconds. Code that sleeps uses no CPU time."""
    found = list[float]()

    def play_in(seconds: float) -> Outcome:
        found.append(seconds)
        return Outcome("late")

    workers = cast(Workers, SimpleNamespace(last_cpu_seconds=used))
    judging.with_second_chance(play_in, workers, 10, float("inf"))
    assert found == tries


@pytest.mark.skipif(not Path("/proc").exists(), reason="CPU time of other processes is read from /proc")
def test_the_cpu_time_of_a_process_includes_its_children() -> None:
    spin = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], start_new_session=True)
    try:
        wait_until(lambda: cpu_seconds(process.pid) > 0.45, "the child has used its CPU time")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


SLOW_TO_LOAD = "import time\ntime.sleep(99)\n"


def test_no_phase_takes_the_time_or_the_points_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "PHASE_SECONDS", 20.0)
    start = time.monotonic()
    judge = Judge(JudgeSettings("tests", situations=1, seconds=9, phases=(1, 2)), Jail())
    graded = judge.grade(solved(1, 2, phase2=SLOW_TO_LOAD))
    assert points(graded) == [40, 0]
    assert {status for group in graded.phases[1]["groups"] for status in group["situations"]} == {"not played"}
    assert time.monotonic() - start < 99


@pytest.mark.parametrize("together", [False, True])
def test_a_file_that_loads_slowly_once_gets_a_second_chance(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    """The first worker of the phase, or of the engine, misses its deadline."""
    load_in = judging.LOAD_SECONDS

    class Slow(JailedWorker):
        def set_deadline(self, seconds: float) -> None:
            is_late = seconds == load_in and not late and (bool(alone_is_done) or not together)
            late.extend([True] * is_late)
            super().set_deadline(0.0 if is_late else seconds)

    late, alone_is_done = list[bool](), list[bool]()
    monkeypatch.setattr(jailed, "JailedWorker", Slow)
    settings = JudgeSettings("tests", situations=1, seconds=20, phases=(1,))
    judge = Judge(settings, Jail(), lambda what, done: alone_is_done.extend([True] * (what == "together")))
    graded = judge.grade(solved(1))
    assert (points(graded), graded.result()["together"]["status"], late) == ([40], "pass", [True])
