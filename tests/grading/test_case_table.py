"""Tests what the report on a case table says when `about` leaves something out."""

import pytest

from mini_vllm_labs.grading.labtest.case_table import about_difference, groups
from mini_vllm_labs.grading.labtest.expect import explained
from mini_vllm_labs.grading.plays import phase3_plays


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
