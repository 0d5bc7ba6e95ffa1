"""Scenarios for which the course's engine decides the answers, and engines that answer with times."""

import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from mini_vllm_labs.cli.main import app
from mini_vllm_labs.conformance.scenarios import PLAIN, RecordedScenario
from mini_vllm_labs.conformance.suite import Options
from mini_vllm_labs.runs.parity import drawn
from tests.conformance.asked import NAMED, NO_FAULT, recorded, suite
from tests.conformance.recorded_engine import FAULTY
from tests.conformance.test_examples import JAVASCRIPT
from tests.tab.node_model import node


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "EACH", 2)
    monkeypatch.setattr(drawn, "MIXED", 6)


@pytest.mark.parametrize("release", ["0.13.0", "0.33.0"])
def test_a_small_scenario_has_at_most_one_need_and_a_seed_draws_the_same_again(release: str) -> None:
    lines = list(drawn.drawn_lines(7, [release]))
    assert lines == list(drawn.drawn_lines(7, [release]))
    needs = Counter(RecordedScenario(line).needs for line in lines if line["kind"] == "small")
    assert needs == {frozenset([need] if need else []): 2 for need in ("", *PLAIN)}
    assert {RecordedScenario(line).release for line in lines} == {release}


def test_an_engine_by_another_author_decides_the_drawn_scenarios_in_the_same_way() -> None:
    command = ["conformance", "--seed", "5", "--release", "0.13.0", "--", node(), str(JAVASCRIPT)]
    shown = CliRunner().invoke(app, command)
    assert "26 of 26 scenarios asked: the same as the course's engine" in shown.output
    assert "mixed, small: decided by the course's engine, not recorded from vLLM" in shown.output
    wrong = CliRunner().invoke(app, ["conformance", "--seed", "5", "--kind", "plain", "--", "true"])
    assert "--seed 5 works only with --kind small or mixed, got --kind plain" in wrong.output


@pytest.mark.parametrize(
    ("fault", "code", "expected"),
    [
        (NO_FAULT, 0, "42 of 42 scenarios asked"),
        ('{"admitted": {"A": [0.0, 5]}}', 1, r"who was admitted when differs first\n  expected  .*\n  given"),
        ('{"tokens": {}}', 1, r"step \d of \d+: when a request got its tokens differs first"),
        ('{"hits": 3}', 1, f"'hits' must contain a list for each request, in step 0 of {FAULTY}"),
        ("dies", 1, f"with exit code 3, in step 0 of {FAULTY}"),
    ],
)
def test_an_engine_may_answer_by_times(fault: str, code: int, expected: str) -> None:
    found, said = suite(recorded(f"by times {fault}"), Options(files=[NAMED], kinds=["plain"], timeout=10))
    assert found == code, said
    assert re.search(expected, said), said
    assert "times do not tell abort" in said
