"""Tests what the report on a case table says when `about` leaves something out."""

import sys
from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import UNREAD, about_difference, check, groups
from mini_vllm_labs.grading.labtest.expect import explained
from mini_vllm_labs.grading.labtest.failure import Failed
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase3_plays, phase5_plays
from tests.mutants.catalog import reference

SAMPLES = "return num_computed_tokens == request.num_tokens"


def test_a_question_without_a_rule_has_that_of_its_group() -> None:
    told = {"rule": "the group's", "hint": "the group's?", "about": {"^a: 1, not 2": {"hint": "why 1?"}}}
    report = about_difference(told, {"a": 1}, {"a": 2}, ["a()"])
    assert (report["rule"], report["hint"]) == ("the group's", "why 1?")


def test_another_order_is_not_another_object() -> None:
    told = {"about": {}} | groups(phase3_plays, 1)[0]
    report = about_difference(told, {"order": ["b", "a", "c"]}, {"order": ["a", "b", "c"]}, ["add_request(a)"])
    assert report["rule"] == told["rule"]
    report = about_difference(told, {"peek_request": "another a"}, {"peek_request": "a"}, ["peek_request()"])
    assert "not a copy" in str(report["rule"])


def test_an_empty_situation_is_not_announced() -> None:
    with pytest.raises(ZeroDivisionError) as found, explained([]):
        raise ZeroDivisionError
    assert not getattr(found.value, "__notes__", [])


@pytest.mark.parametrize(
    ("condition", "is_named"),
    [("not request.sampling_params.logprobs", True), ("num_computed_tokens != 9", False)],
)
def test_a_field_that_no_rule_mentions_is_named_if_it_decided(
    condition: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = reference(5).text
    assert SAMPLES in text
    module = ModuleType("implementation")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(text.replace(SAMPLES, f"{SAMPLES} and {condition}"), vars(module))
    answers = Answers("test_task5_3_should_sample.py::test_should_sample[random]")
    with pytest.raises(Failed) as found:
        check(phase5_plays, module, answers, 3, "random")
    assert (UNREAD in str(found.value)) == is_named
