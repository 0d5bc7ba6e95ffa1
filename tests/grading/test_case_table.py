"""Tests what the report on a case table says when `about` leaves something out."""

from mini_vllm_labs.grading.labtest.case_table import about_difference


def test_a_question_without_a_rule_has_that_of_its_group() -> None:
    told = {"rule": "the group's", "hint": "the group's?", "about": {"^a: 1, not 2": {"hint": "why 1?"}}}
    report = about_difference(told, {"a": 1}, {"a": 2}, ["a()"])
    assert (report["rule"], report["hint"]) == ("the group's", "why 1?")
