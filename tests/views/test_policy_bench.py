"""The bench shows what the simulator says of three policies on the same requests, and who pays."""

from dataclasses import dataclass
from functools import cache

import pytest

from course.simulator.policies import POLICIES, under_policy
from course.simulator.served import Served, Slo
from course.simulator.simulation import simulate
from course.simulator.workloads import make_requests
from course.views.figures import digits
from course.views.policy_bench import Contest, Outcome, hold_contest, policy_bench, policy_picture
from course.views.policy_bench.bench import hold_with_this_lineup
from course.views.policy_bench.contest import groups
from course.views.policy_bench.words import group_rows, rows
from course.workloads.timed_request import TimedRequest
from mini_vllm import parse_lineup
from mini_vllm.engine.errors import StalledError
from mini_vllm.seams.lineup import Lineup
from tests.views.test_chunking_dial import words_in

LINEUP = parse_lineup("solution:1-5")
CONTEST, SLO = Contest(num_requests=120), Slo()


@cache
def held() -> tuple[Outcome, ...]:
    return tuple(hold_contest(CONTEST, LINEUP))


def test_every_policy_serves_the_same_requests_as_the_simulator_does() -> None:
    requests = make_requests("shared-prefix", 120, CONTEST.rate)
    config, cost = CONTEST.experiment.resolved_engine(), CONTEST.experiment.cost
    assert config.num_gpu_blocks == 800
    assert [outcome.policy for outcome in held()] == list(POLICIES)
    for outcome in held():
        served = simulate(*under_policy(outcome.policy, requests, config), cost, LINEUP)
        assert outcome.served == served
        assert outcome.time_to_first_token(95) == served.time_to_first_token([95])[0]


def test_every_figure_is_in_picture_and_twin() -> None:
    outcomes = list(held())
    picture = policy_picture(CONTEST, outcomes, SLO)
    words = words_in(picture)
    for row in [*rows(outcomes, SLO), *group_rows(outcomes)]:
        assert row.name in words
        assert set(row.texts) <= set(words)
        fcfs, priority, shortest = row.texts
        assert f"  {row.name}: FCFS {fcfs}, PRIORITY {priority}, shortest-first {shortest}" in picture.twin
    assert [row.texts for row in rows(outcomes, SLO) if row.name == "preemptions"] == [
        [str(outcome.served.num_preemptions) for outcome in outcomes]
    ]
    for outcome in outcomes:
        assert digits(outcome.served.goodput(SLO)) in picture.sentence
    assert picture.sentence in picture.twin
    assert f"engine: {LINEUP}" in words
    assert f"engine: {LINEUP}" in picture.twin
    dots = next(layer.content for layer in picture.layers if layer.name == "requests").count("h0")
    urgent = groups(outcomes)["urgent requests"]
    assert dots == 3 * (120 + 2 * len(urgent)), "one a request, and two more for the outline of the urgent"


@dataclass
class Waits:
    """Requests whose answers are 10, 20, ... tokens long, every third of them urgent; who waited how long."""

    fcfs: list[float]
    priority: list[float]
    shortest: list[float]

    def outcomes(self) -> list[Outcome]:
        made = []
        for policy, waits in zip(POLICIES, (self.fcfs, self.priority, self.shortest), strict=True):
            requests = [TimedRequest(0.0, str(n), [1] * 9, 10 * (n + 1), int(n % 3 != 0)) for n in range(len(waits))]
            served = Served(requests, waits, [wait + 1 for wait in waits], gaps=[(0.01, 5)])
            made.append(Outcome(policy, served, LINEUP))
        return made


def test_groups_are_those_a_policy_may_favour() -> None:
    members = groups(Waits([1.0] * 9, [1.0] * 9, [1.0] * 9).outcomes())
    assert members["urgent requests"] == {0, 3, 6}
    assert members["all the others"] == {1, 2, 4, 5, 7, 8}
    assert members["shortest quarter"] == {0, 1, 2}
    assert members["longest quarter"] == {6, 7, 8}


def test_who_is_starved_is_said_with_both_figures() -> None:
    outcomes = Waits([2.0] * 9, [1.0, 2.0, 2.0] * 3, [1.0] * 7 + [20.0, 30.0]).outcomes()
    picture = policy_picture(CONTEST, outcomes, SLO)
    assert "With shortest-first the longest answers starve: p95 of 30.0 s to the first token, 2.00 s with FCFS." in (
        picture.sentence
    )
    assert "With PRIORITY" not in picture.sentence, "nobody waits longer there"
    table = next(layer.content for layer in picture.layers if layer.name == "groups")
    assert table.count("mv-alert") == 1
    fair = policy_picture(CONTEST, Waits([2.0] * 9, [2.0] * 9, [2.0] * 9).outcomes(), SLO)
    assert fair.sentence.endswith("Nobody waits much longer than with FCFS.")
    assert "mv-alert" not in "".join(layer.content for layer in fair.layers)


def test_shortest_first_starves_the_longest_of_a_real_crowd() -> None:
    assert "With shortest-first the longest answers starve" in policy_picture(CONTEST, list(held()), SLO).sentence


def test_another_objective_asks_for_no_new_contest() -> None:
    asked: list[Contest] = []

    def hold(contest: Contest) -> list[Outcome]:
        asked.append(contest)
        return list(held())

    panel = policy_bench(hold)
    before = panel.answer["twin"]
    panel.set(time_to_first_token=0.1)
    assert panel.answer["twin"] != before
    assert "SLO: first token within 100 ms" in panel.answer["twin"]
    assert len(asked) == 1
    panel.set(load=200)
    assert [contest.load for contest in asked] == [150, 200]


def test_the_engine_is_the_one_of_lab_impl_and_one_that_is_stuck_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution:1-5")
    assert {str(outcome.lineup) for outcome in hold_with_this_lineup(Contest(num_requests=20))} == {str(LINEUP)}

    def stall(contest: Contest, lineup: Lineup) -> list[Outcome]:
        raise StalledError("nothing can be scheduled any more")

    monkeypatch.setattr("course.views.policy_bench.bench.hold_contest", stall)
    with pytest.raises(ValueError, match="nothing can be scheduled any more"):
        policy_bench()


def test_a_pool_that_is_too_small_is_explained() -> None:
    with pytest.raises(ValueError, match="num_gpu_blocks must hold"):
        hold_contest(Contest("mixed", num_gpu_blocks=100, num_requests=50), LINEUP)
