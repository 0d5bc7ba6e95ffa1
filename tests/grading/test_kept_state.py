"""State that a learner's file keeps outside its objects is found, and the message says so."""

from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from mini_vllm_labs.grading.labtest.case_table import AGAIN, IN_BETWEEN, WHERE_KEPT, check, check_in_between, groups
from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.failure import Failed
from mini_vllm_labs.grading.labtest.kept_state import KEPT, fresh_from, retold_as_kept
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase1_plays, phase10_plays, phase14_plays
from mini_vllm_labs.grading.plays.earlier_answers import earlier_answers
from mini_vllm_labs.grading.plays.support import make_request
from tests.mutants.catalog import reference

GIVEN_OUT = """
from mini_vllm.core.step import ScheduledRequest
kept = []
def new(batch): return [1]
def empty(batch): return kept
def twice(batch): return ([2],) * 2
def lent(batch): return batch[0].block_ids
def shared(request): request.spec_token_ids = kept
"""


def module(text: str, name: str = "a_phase") -> Any:
    phase = ModuleType(name)
    exec(text, vars(phase))
    return phase


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("new", None),
        ("empty", "what empty returned before"),
        ("twice", "another part of the same answer"),
        ("lent", "an argument of the call"),
    ],
)
def test_a_container_that_somebody_else_has_too_is_named(name: str, place: str | None) -> None:
    phase, request = module(GIVEN_OUT), make_request("A", 3)
    batch = [phase.ScheduledRequest(request, 0, 3, [4], True)]
    with earlier_answers(phase) as earlier, earlier.watched():
        getattr(phase, name)(batch)
        getattr(phase, name)(batch)
    assert getattr(earlier.changed, "place", None) == place


def test_inherited_methods_are_watched_whatever_the_name_of_their_class() -> None:
    phase = module("class A:\n    kept = []\n    def empty(self): return self.kept\nclass A(A): pass")
    with earlier_answers(phase) as earlier, earlier.watched():
        phase.A().empty()
        phase.A().empty()
    assert earlier.changed is not None


def test_a_list_that_two_requests_have_is_named() -> None:
    phase = module(GIVEN_OUT)
    with earlier_answers(phase) as earlier, earlier.watched():
        phase.shared(make_request("A", 3))
        assert earlier.changed is None
        phase.shared(make_request("B", 3))
    assert str(earlier.changed) == "shared gave a request []. The same list is what shared gave a request before."


KEEPS_HITS = ("self._first_external: dict[str, int] = {}", "self._first_external = HITS")
COUNTS_IN_CLASS = (
    ("self.num_executed = 0", "PrefillPacer.num_executed = 0"),
    ("self.num_executed +", "PrefillPacer.num_executed +"),
)
PACER = "test_task14_5_prefill_pacer.py::test_prefill_pacer[random]"


def changed_reference(phase: int, *changes: tuple[str, str]) -> Any:
    text = reference(phase).text
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return module(f"HITS = {{}}\n{text}")


@pytest.mark.parametrize(
    ("plays", "task", "test", "yours"),
    [
        (phase10_plays, 3, "test_task10_3_loads.py::test_loads[random]", changed_reference(10, KEEPS_HITS)),
        (phase14_plays, 5, PACER, changed_reference(14, *COUNTS_IN_CLASS)),
    ],
)
def test_another_object_is_used_between_two_calls(plays: Any, task: int, test: str, yours: Any) -> None:
    with pytest.raises(Failed, match=f"(?s){IN_BETWEEN}.*<-- differs.*"):
        check(plays, yours, Answers(test), task, "random")


def test_a_difference_before_another_object_is_used_is_not_told_as_shared() -> None:
    drawn = [phase1_plays.random_case(Random(seed), 1) for seed in range(2)]
    told, wrong = groups(phase1_plays, 1)[0], [[dict[str, object](clamp=-1)]] * 2
    with pytest.raises(Failed, match=f"(?s){AGAIN}.*<-- differs.*"):
        check_in_between(phase1_plays, changed_reference(1), told, drawn, wrong)


def test_chance_is_not_told_as_kept_state(tmp_path: Path) -> None:
    file = tmp_path / "a_phase.py"
    file.write_text("", encoding="utf-8")
    # one result for the file, then the results for fresh copies
    phase, ends = fresh_from("a_phase", file), iter([False, True, False, False])

    def test(phase: Any) -> None:
        expect_equal(next(ends), True, rule="A run passes.", situation="one run", hint="which one?")

    with pytest.raises(Failed) as failed:
        test(phase)
    assert retold_as_kept(failed.value, test, {"phase": phase}) is failed.value


def test_a_failure_that_a_fresh_file_does_not_have_is_told_as_kept_state(tmp_path: Path) -> None:
    file = tmp_path / "a_phase.py"
    file.write_text("def count(kept=[]):\n    kept.append(1)\n    return len(kept)\n", encoding="utf-8")
    phase = fresh_from("a_phase", file)

    def test(phase: Any) -> None:
        expect_equal(phase.count(), 1, rule="It is called once.", situation="one call", hint="how often?")

    test(phase)
    with pytest.raises(Failed) as failed:
        test(phase)
    told = str(retold_as_kept(failed.value, test, {"phase": phase}))
    assert told.startswith(KEPT)
    assert "expected   1" in told
    assert told.endswith(WHERE_KEPT)
    always = module("def count(): return 2")
    always.__file__ = str(file.with_name("always.py"))
    Path(always.__file__).write_text("def count(): return 2\n", encoding="utf-8")
    assert str(retold_as_kept(failed.value, test, {"phase": always})) == str(failed.value)
