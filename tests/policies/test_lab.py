"""The policies lab: plausible mistakes fail a graded test, fair alternatives pass, and the handout's numbers hold."""

import math
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

from labs.phase13_scheduling_policies import starter, test_task13_1_vtc, test_task13_2_least_slack
from labs.phase13_scheduling_policies.runs import ONE_SEAT, Run, asked
from mini_vllm.core.request import Request
from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.results import is_written
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.grading.labtest.own_answers import tell_changed
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plan import load_whole_plan
from mini_vllm_labs.grading.plays.earlier_answers import earlier_answers
from mini_vllm_labs.runs.sandbox.imports import refused_import
from solutions import phase13_scheduling_policies as solution
from tests.judge.__main__ import loses
from tests.mutants.catalog import Subject, alternatives, mutants, reference

STARTER = Path(str(starter.__file__)).read_text(encoding="utf-8")
HANDOUT = Path(str(starter.__file__)).with_name("README.md").read_text(encoding="utf-8")
JUDGE = Judge(JudgeSettings("policies", seconds=30, phases=(13,)), Jail())


def failures(module: ModuleType) -> Iterator[str]:
    """Yield the outcome of each graded test that does not pass, as reported by the graded tests' hooks."""
    for file in (test_task13_1_vtc, test_task13_2_least_slack):
        for name, test in vars(file).items():
            cases = next((mark.args[1] for mark in getattr(test, "pytestmark", ())), [None])
            for case in cases if name.startswith("test_") else ():
                answers = Answers(f"{Path(str(file.__file__)).name}::{name}[{case}]")
                try:
                    with earlier_answers(module) as earlier:
                        with earlier.watched():
                            test(earlier.phase, *(() if case is None else (answers, case)))
                        tell_changed(earlier.changed)
                except (pytest.fail.Exception, Exception) as error:
                    yield "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


@pytest.mark.parametrize("mistake", mutants(13), ids=lambda mistake: mistake.name)
def test_a_mistake_fails_a_graded_test_that_says_what_broke(mistake: Subject) -> None:
    module = ModuleType("mistake")
    exec(mistake.text, vars(module))
    found = next(failures(module), "")
    # The hint for an error in the learner's own code depends on the error's type, and `hints.py` adds it.
    told = ["\nHint: "] if found.startswith("Failed: ") else ["\nThe rule of this test: ", "\nThe situation:\n"]
    assert all(words in found for words in told), found
    assert loses(JUDGE, 13, mistake.text), "the judge lets it pass"


@pytest.mark.parametrize("fair", [reference(13), *alternatives(13)], ids=lambda fair: fair.name)
def test_the_reference_and_fair_alternatives_get_all_points(fair: Subject) -> None:
    graded = JUDGE.grade(Submission("fair", {13: fair.text.encode()}))
    assert graded.result()["points"] == graded.result()["max"] == 20, graded.failures


def test_an_untouched_starter_fails_with_nothing_but_our_error() -> None:
    found = list(failures(starter))
    assert len(found) == len(load_whole_plan()[12].tests)
    where = {text.partition("\n")[0].rpartition(":")[0] for text in found}
    assert where == {"NotImplementedError: Phase 13, task 1", "NotImplementedError: Phase 13, task 2"}
    assert not refused_import(STARTER)
    graded = JUDGE.grade(Submission("untouched", {13: STARTER.encode()}))
    assert not any(map(is_written, graded.phases))


def test_starter_and_solution_have_the_same_public_names_and_signatures() -> None:
    def surface(module: ModuleType) -> list[tuple[str, str]]:
        kinds = (module.VirtualTokenCounter, module.LeastSlackFirst, module.MyPolicy)
        methods = [(name, one) for kind in kinds for name, one in vars(kind).items() if callable(one)]
        return [(name, str(signature(one))) for name, one in methods if name == "__init__" or name[0] != "_"]

    assert surface(starter) == surface(solution)


def test_the_handouts_counters_are_those_of_a_run() -> None:
    rows: list[str] = []

    class Watched(solution.VirtualTokenCounter):
        def sampled(self, request: Request, num_tokens: int) -> None:
            super().sampled(request, num_tokens)
            counters = " | ".join(f"{self.counters[tenant]:.0f}" for tenant in "abc")
            name = ("b1", "a1", "b2", "a2", "a3", "c1")[int(request.request_id)]
            rows.append(f"| {len(rows) + 1} | {name} | {counters} |")

    prompts = [("b", 60), ("a", 4), ("b", 4), ("a", 4), ("a", 4)]
    requests = [asked(str(number), num, 1, tenant=tenant) for number, (tenant, num) in enumerate(prompts)]
    Run(Watched(), [*requests, asked("5", 4, 1, 0.015, "c")], ONE_SEAT)
    assert "\n".join(rows) in HANDOUT


def test_the_handouts_slacks_are_those_of_the_reference() -> None:
    policy = solution.LeastSlackFirst()
    policy.now, policy._first_token_times = 2.0, {"B": 1.6}
    few, many = SamplingParams(max_tokens=20), SamplingParams(max_tokens=150)
    a = Request("A", [1] * 300, few, arrival_time=1.9, service_level=ServiceLevel(ttft=0.5))
    b = Request("B", [1], few, service_level=ServiceLevel(tpot=0.05)).followed_by([1] * 10)
    b.num_computed_tokens = 10
    c = Request("C", [1] * 100, many, arrival_time=1.0, service_level=ServiceLevel(e2e=3.0))
    shown = [line.split(" | ")[-1] for line in HANDOUT.splitlines() if re.match(r"\| [ABCD] ", line)]
    assert [f"{round(policy.slack(request), 4):g} s |" for request in (a, b, c)] == shown[:3]
    assert policy.slack(Request("D", [1])) == math.inf


def test_the_handouts_kept_promises_are_those_of_a_run() -> None:
    cases = (0.018, (0.05, 0.5), "61 promises, and least slack keeps all 100"), (0.01, (0.05, 0.2, 0.5), "25 and 24")
    for gap, limits, text in cases:
        levels = [ServiceLevel(ttft=limits[number % len(limits)]) for number in range(100)]
        requests = [asked(f"r{number}", 4, 2, gap * number, level=level) for number, level in enumerate(levels)]
        runs = [Run(policy, requests, ONE_SEAT) for policy in (solution.MyPolicy(), solution.LeastSlackFirst())]
        assert re.findall(r"\d+", text) == [str(100 - len(run.late())) for run in runs]
        assert text in " ".join(HANDOUT.split())
