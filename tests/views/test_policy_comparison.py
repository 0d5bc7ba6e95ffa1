"""The panel shows the simulator's figures of three policies on the same requests, and the starved groups."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from course.simulator.policies import POLICIES, under_policy
from course.simulator.served import Served, Slo
from course.simulator.simulation import simulate
from course.simulator.workloads import make_requests
from course.views.figures import digits
from course.views.policy_comparison import (
    PolicyComparison,
    PolicyResult,
    compare_policies,
    policy_panel,
    policy_picture,
)
from course.views.policy_comparison.comparison import groups
from course.views.policy_comparison.figures import group_rows, rows
from course.views.policy_comparison.panel import compare_with_this_lineup
from course.workloads.timed_request import TimedRequest
from mini_vllm import parse_lineup
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.engine.errors import StalledError
from tests.views.test_chunking_dial import words_in

LINEUP = parse_lineup("solution:1-5")
COMPARISON, SLO = PolicyComparison(num_requests=120), Slo()


@cache
def compared() -> tuple[PolicyResult, ...]:
    return tuple(compare_policies(COMPARISON, LINEUP))


def test_every_policy_serves_the_requests_as_the_simulator_does() -> None:
    requests = make_requests("shared-prefix", 120, COMPARISON.rate)
    config, cost = COMPARISON.experiment.resolved_engine(), COMPARISON.experiment.cost
    assert config.num_gpu_blocks == 800
    assert [result.policy for result in compared()] == list(POLICIES)
    for result in compared():
        served = simulate(*under_policy(result.policy, requests, config), cost, LINEUP)
        assert result.served == served
        assert result.time_to_first_token(95) == served.time_to_first_token([95])[0]


def test_every_figure_is_in_picture_and_text_alternative() -> None:
    results = list(compared())
    picture = policy_picture(COMPARISON, results, SLO)
    words = words_in(picture)
    for row in [*rows(results, SLO), *group_rows(results)]:
        assert row.name in words
        assert set(row.texts) <= set(words)
        fcfs, priority, shortest = row.texts
        assert f"{row.name}: FCFS {fcfs}, PRIORITY {priority}, shortest-first {shortest}" in picture.text_alternative
    assert [row.texts for row in rows(results, SLO) if row.name == "preemptions"] == [
        [str(result.served.num_preemptions) for result in results]
    ]
    for result in results:
        assert digits(result.served.goodput(SLO)) in picture.sentence
    assert picture.sentence in picture.text_alternative
    assert f"engine: {LINEUP}" in words
    assert f"engine: {LINEUP}" in picture.text_alternative
    dots = next(layer.content for layer in picture.layers if layer.name == "requests").count("h0")
    urgent = groups(results)["urgent requests"]
    assert dots == 3 * (120 + 2 * len(urgent)), "one a request, and two more for the outline of the urgent"


@dataclass
class Waits:
    """Requests with outputs of 10, 20, ... tokens, every third of them urgent, and their waits under each policy."""

    fcfs: list[float]
    priority: list[float]
    shortest: list[float]

    def results(self) -> list[PolicyResult]:
        made = []
        for policy, waits in zip(POLICIES, (self.fcfs, self.priority, self.shortest), strict=True):
            requests = [TimedRequest(0.0, str(n), [1] * 9, 10 * (n + 1), int(n % 3 != 0)) for n in range(len(waits))]
            served = Served(requests, waits, [wait + 1 for wait in waits], gaps=[(0.01, 5)])
            made.append(PolicyResult(policy, served, LINEUP))
        return made


def test_groups_are_those_a_policy_may_favour() -> None:
    members = groups(Waits([1.0] * 9, [1.0] * 9, [1.0] * 9).results())
    assert members["urgent requests"] == {0, 3, 6}
    assert members["all the others"] == {1, 2, 4, 5, 7, 8}
    assert members["shortest quarter"] == {0, 1, 2}
    assert members["longest quarter"] == {6, 7, 8}


def test_a_starved_group_is_named_with_both_figures() -> None:
    results = Waits([2.0] * 9, [1.0, 2.0, 2.0] * 3, [1.0] * 7 + [20.0, 30.0]).results()
    picture = policy_picture(COMPARISON, results, SLO)
    starved = "Starved, p95 first token: longest quarter with shortest-first 30.0 s (FCFS 2.00 s)."
    assert picture.sentence.endswith(starved), "and no group with PRIORITY"
    table = next(layer.content for layer in picture.layers if layer.name == "groups")
    assert table.count("mv-alert") == 1
    fair = policy_picture(COMPARISON, Waits([2.0] * 9, [2.0] * 9, [2.0] * 9).results(), SLO)
    assert fair.sentence.endswith("Starved, p95 first token: none.")
    assert "mv-alert" not in "".join(layer.content for layer in fair.layers)


def test_shortest_first_starves_the_longest_of_a_real_crowd() -> None:
    sentence = policy_picture(COMPARISON, list(compared()), SLO).sentence
    assert "longest quarter with shortest-first" in sentence


def test_another_objective_needs_no_new_comparison() -> None:
    asked: list[PolicyComparison] = []

    def compare(comparison: PolicyComparison) -> list[PolicyResult]:
        asked.append(comparison)
        return list(compared())

    panel = policy_panel(compare)
    before = panel.answer["text_alternative"]
    panel.set(time_to_first_token=0.1)
    assert panel.answer["text_alternative"] != before
    assert "SLO: first token within 100 ms" in panel.answer["text_alternative"]
    assert len(asked) == 1
    panel.set(load=200)
    assert [comparison.load for comparison in asked] == [150, 200]


def test_few_requests_while_a_knob_moves_and_all_of_them_when_it_rests() -> None:
    asked: list[tuple[int, int]] = []

    def compare(comparison: PolicyComparison) -> list[PolicyResult]:
        asked.append((comparison.load, comparison.num_requests))
        return list(compared())

    panel = policy_panel(compare)

    def ask(*, whole: bool, **turned: float) -> dict[str, Any]:
        values = panel.values | turned
        panel.question = panel.question | {"ticket": len(asked), "values": values, "whole": whole}
        answer: dict[str, Any] = panel.answer
        return answer

    first = ask(load=200, whole=False)
    assert (first["has_more"], "16 requests" in first["text_alternative"]) == (True, True)
    assert "16 requests" not in panel.picture().text_alternative, "an exported page has all requests"
    rested = ask(load=200, whole=True)
    assert ("has_more" in rested, "300 requests" in rested["text_alternative"]) == (False, True)
    again = ask(time_to_first_token=0.2, whole=False)
    assert ("has_more" in again, "300 requests" in again["text_alternative"]) == (False, True)
    assert asked == [(150, 300), (200, 16), (200, 300)]


def test_the_engine_is_that_of_lab_impl_and_a_stall_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution:1-5")
    assert {str(result.lineup) for result in compare_with_this_lineup(PolicyComparison(num_requests=20))} == {
        str(LINEUP)
    }

    def stall(comparison: PolicyComparison, lineup: Lineup) -> list[PolicyResult]:
        raise StalledError("nothing can be scheduled any more")

    monkeypatch.setattr("course.views.policy_comparison.panel.compare_policies", stall)
    with pytest.raises(ValueError, match="nothing can be scheduled any more"):
        policy_panel()


def test_a_pool_that_is_too_small_is_explained() -> None:
    with pytest.raises(ValueError, match="num_gpu_blocks must hold"):
        compare_policies(PolicyComparison("mixed", num_gpu_blocks=100, num_requests=50), LINEUP)
