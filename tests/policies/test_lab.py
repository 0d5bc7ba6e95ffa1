"""The lab of policies: plausible mistakes fail a graded test, fair alternatives pass, the handout's numbers hold."""

import math
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

from classroom.judge.jail import Jail
from classroom.judge.judge import Judge
from classroom.judge.results import is_written
from classroom.judge.settings import JudgeSettings
from classroom.judge.submission import Submission
from course.sandbox.imports import refused_import
from labs.elective_policies import starter, test_task13_1_vtc, test_task13_2_least_slack
from labs.elective_policies.runs import ONE_SLOT, Run, asked
from mini_vllm.core.request import Request
from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.sampling_params import SamplingParams
from solutions import elective_policies as solution
from tests.judge.__main__ import loses

SOLUTION = Path(str(solution.__file__)).read_text(encoding="utf-8")
STARTER = Path(str(starter.__file__)).read_text(encoding="utf-8")
HANDOUT = Path(str(starter.__file__)).with_name("README.md").read_text(encoding="utf-8")
JUDGE = Judge(JudgeSettings("policies", seconds=30, phases=(13,)), Jail())
TASKS: dict[int, ModuleType] = {1: test_task13_1_vtc, 2: test_task13_2_least_slack}

# Each with its task and name; below, a part of that task's solution, and what stands there by mistake.
MISTAKES = r"""
# 1 prompts are free
self._add_service(request, self.input_weight * num_prompt_tokens) => pass
# 1 outputs are free
self._add_service(request, self.output_weight * num_tokens) => pass
# 1 each chunk costs the whole prompt
self.input_weight * num_prompt_tokens => self.input_weight * request.num_prompt_tokens
# 1 nothing is lifted
self.counters[request.tenant] = max(self.counters[request.tenant], floor) => pass
# 1 lifted to the most
floor = min( => floor = max(
# 1 a counter is lowered too
max(self.counters[request.tenant], floor) => floor
# 1 after an idle queue nothing is lifted
{self.last_to_leave} => {request.tenant}
# 1 a tenant that runs is taken for one that waits
{request.tenant for request in self._queue} => {r.tenant for r in self._queue} | {r.tenant for r, _ in shares}
# 1 weights multiply
service / self => service * self
# 1 each request has a counter of its own
self.counters[request.tenant] += service => self.counters[request.request_id] += service
# 1 ties by the name of the tenant
return self.counters[request.tenant] => return (self.counters[request.tenant], request.tenant)
# 1 ranks stay as they were on arrival
rank_is_fixed = False => rank_is_fixed = True
# 1 only the least of all tenants that ever were is admitted
def sampled => def admits(self, r, running): return self.rank(r) <= min(self.counters.values())\n    def sampled
# 1 a running request gets lost
def sampled => def serve_order(self, running): return running[:1]\n    def sampled
# 2 first come, first served
return self.slack(request) => return 0.0
# 2 no tpot
first + num_outputs * level.tpot => math.inf
# 2 no e2e
min(due - next_token, request.arrival_time + level.e2e - last_token) => due - next_token
# 2 earliest deadline first: what is left to generate takes no time
level.e2e - last_token => level.e2e - next_token
# 2 the prompt takes no time
num_to_compute * self.seconds_per_token => 0.0
# 2 ranks stay as they were on arrival
rank_is_fixed = False => rank_is_fixed = True
# 2 without a promise the slack is 0
return self.slack(request) => return 0.0 if self.slack(request) == math.inf else self.slack(request)
# 2 ties by name
return self.slack(request) => return (self.slack(request), request.request_id)
# 2 the least slack is preempted
reverse=True => reverse=False
# 2 the last to come is preempted
victims.sort(key=self.slack, reverse=True) => pass
# 2 all give way in every step
def victims => def to_preempt(self, step): return list(step.running)\n    def victims
"""

ALTERNATIVES = {
    "the paper's loop: each request that leaves the queue is charged before the next one is chosen": """
class VirtualTokenCounter(VirtualTokenCounter):
    def start_step(self, step):
        super().start_step(step)
        self.ahead, self.before = {}, dict.fromkeys(self.counters, 0.0)
        for request in sorted(step.waiting, key=lambda one: one.arrival_time):
            self.ahead[request.request_id] = self.before[request.tenant]
            self.before[request.tenant] += self.input_weight * request.num_prompt_tokens

    def rank(self, request):
        return self.counters[request.tenant] + getattr(self, "ahead", {}).get(request.request_id, 0.0)
""",
    "a tenant that comes back is first among equals": """
class VirtualTokenCounter(VirtualTokenCounter):
    def start_step(self, step):
        before = dict(self.counters)
        super().start_step(step)
        for tenant, counter in self.counters.items():
            if counter > before.get(tenant, 0.0):
                self.counters[tenant] -= 1e-9
""",
    "the seconds of a step are measured": """
class LeastSlackFirst(LeastSlackFirst):
    def start_step(self, step):
        if 0 < step.now - self.now < 0.05:
            self.seconds_per_step += 0.2 * (step.now - self.now - self.seconds_per_step)
        super().start_step(step)
""",
}


def mistakes() -> list[tuple[int, str, str]]:
    """Return (task, name, source with the mistake) of each."""
    found = []
    start = SOLUTION.index("class LeastSlackFirst")
    for title, line in re.findall(r"# (.+)\n(.+)", MISTAKES):
        task, (old, new) = int(title[0]), line.split(" => ")
        halves = [SOLUTION[:start], SOLUTION[start:]]
        assert halves[task - 1].count(old) == 1, f"{title}: {old!r}"
        halves[task - 1] = halves[task - 1].replace(old, new.replace(r"\n", "\n"))
        found.append((task, title[2:], "".join(halves)))
    return found


def module_of(source: str) -> ModuleType:
    module = ModuleType("graded")
    exec("import math\n" + source, vars(module))
    return module


def failures(module: ModuleType, *tasks: int) -> Iterator[str]:
    """Yield the outcome of each graded test that does not pass."""
    for task in tasks:
        for name, test in vars(TASKS[task]).items():
            if name.startswith("test_"):
                try:
                    test(module)
                except (pytest.fail.Exception, Exception) as error:
                    yield f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(("task", "name", "source"), [pytest.param(*one, id=one[1]) for one in mistakes()])
def test_a_mistake_fails_a_graded_test_that_says_what_broke(task: int, name: str, source: str) -> None:
    found = next(failures(module_of(source), task), "")
    assert found.startswith("Failed: "), found or name
    assert "\nHint: " in found
    assert loses(JUDGE, 13, f"import math\n{source}"), "the judge lets it pass"


@pytest.mark.parametrize("source", ["", *ALTERNATIVES.values()], ids=["the reference", *ALTERNATIVES])
def test_the_reference_and_fair_alternatives_pass(source: str) -> None:
    assert list(failures(module_of(SOLUTION + source), 1, 2)) == []
    graded = JUDGE.grade(Submission("fair", {13: (SOLUTION + source).encode()}))
    assert graded.result()["points"] == graded.result()["max"] == 20, graded.failures


def test_an_untouched_starter_fails_with_nothing_but_our_error() -> None:
    found = list(failures(starter, 1, 2))
    assert len(found) == 16
    assert {text.rpartition(":")[0] for text in found} == {
        f"NotImplementedError: Phase 13, task {task}" for task in TASKS
    }
    assert not refused_import(STARTER)
    graded = JUDGE.grade(Submission("untouched", {13: STARTER.encode()}))
    assert not any(map(is_written, graded.phases))


def test_starter_and_solution_have_the_same_public_names_and_signatures() -> None:
    def surface(module: ModuleType) -> list[tuple[str, str]]:
        kinds = (module.VirtualTokenCounter, module.LeastSlackFirst, module.MyPolicy)
        methods = [(name, one) for kind in kinds for name, one in vars(kind).items() if callable(one)]
        return [(name, str(signature(one))) for name, one in methods if name == "__init__" or name[0] != "_"]

    assert surface(starter) == surface(solution)


def test_the_handouts_waits_are_those_of_a_run() -> None:
    requests = [asked(f"a{number}", 10, 10, tenant="a") for number in range(100)] + [asked("b", 10, 10, 0.05, "b")]
    rows = {"first come, first served": solution.MyPolicy(), "fair shares (task 1)": solution.VirtualTokenCounter()}
    for name, policy in rows.items():
        served = Run(policy, requests).served
        assert f"| {name} | {served.times_to_first_token[-1]:.2f} s | {served.seconds:.2f} s |" in HANDOUT


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
    Run(Watched(), [*requests, asked("5", 4, 1, 0.015, "c")], ONE_SLOT)
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
    cases = (0.018, (0.05, 0.5), "61 promises, least slack all 100"), (0.01, (0.05, 0.2, 0.5), "25 and 24")
    for gap, limits, text in cases:
        levels = [ServiceLevel(ttft=limits[number % len(limits)]) for number in range(100)]
        requests = [asked(f"r{number}", 4, 2, gap * number, level=level) for number, level in enumerate(levels)]
        runs = [Run(policy, requests, ONE_SLOT) for policy in (solution.MyPolicy(), solution.LeastSlackFirst())]
        assert re.findall(r"\d+", text) == [str(100 - len(run.late())) for run in runs]
        assert text in " ".join(HANDOUT.split())
