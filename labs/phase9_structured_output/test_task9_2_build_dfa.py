"""Graded tests of task 9.2: the DFA of a regex."""

from types import ModuleType

import pytest

from course.labtest import phase9_plays
from course.labtest.case_table import cases, check
from course.labtest.expect import expect_equal
from course.labtest.recorded import Answers
from mini_vllm.core.automaton import MAX_DFA_STATES, build_nfa
from mini_vllm.core.regex import parse_regex


@pytest.mark.parametrize("name", cases(phase9_plays, 2))
def test_build_dfa(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9_plays, phase9, answers, 2, name)


@pytest.mark.parametrize(("num_letters", "expected"), [(8, "513 states"), (12, "ValueError that names 4,000")])
def test_too_many_states_are_refused(phase9: ModuleType, num_letters: int, expected: str) -> None:
    nfa = build_nfa(parse_regex(f"(a|b)*a(a|b){{{num_letters}}}"))  # each letter doubles the states
    try:
        yours = f"{len(phase9.build_dfa(nfa, frozenset(b'abc')).transitions)} states"
    except ValueError as error:
        yours = f"ValueError that names {MAX_DFA_STATES:,}" if f"{MAX_DFA_STATES:,}" in str(error) else str(error)
    rule = f"A DFA has at most MAX_DFA_STATES ({MAX_DFA_STATES:,}) states: more would fill the memory."
    expect_equal(yours, expected, rule=rule, situation=f"{num_letters} letters", hint="where do you count states?")
