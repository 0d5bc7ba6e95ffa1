"""One message per mistake: failures with the same cause are grouped, and the first one is printed last."""

from pathlib import Path

import pytest

from mini_vllm_labs.grading.labtest.grouping import LATER
from mini_vllm_labs.grading.results import mistake_in
from tests.grading.checkout import Checkout, solution

UNUSABLE = "The test could not go on after this answer of yours (TypeError: int() argument).\n"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output for a learner who mistakes an empty list for a refusal."""
    checkout = Checkout(tmp_path_factory.mktemp("course"))
    wrong = solution(1).replace(
        "if kv.allocate_slots(request, num_new_tokens) is None", "if not kv.allocate_slots(request, num_new_tokens)"
    )
    checkout.starter(1).write_text(wrong, encoding="utf-8")
    return checkout.pytest("labs/phase1_scheduler_step", "-q")


def test_the_first_named_failure_stands_last(output: str) -> None:
    headings = [line for line in output.splitlines() if line.startswith("____")]
    assert "test_running_requests[an empty list is not a refusal]" in headings[-1], output


def test_the_hint_of_a_known_mistake_stands_in_all_its_failures(output: str) -> None:
    hints = [line for line in output.splitlines() if line.startswith("Hint: ")]
    assert len(hints) == output.count("\n____") > 1
    assert len(set(hints)) == 1


def test_questions_of_others_are_for_later_where_the_mistake_is_not_known(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    wrong = solution(1).replace("token_budget -= num_new_tokens", "token_budget -= min(num_new_tokens, 2)")
    checkout.starter(1).write_text(wrong, encoding="utf-8")
    output = checkout.pytest("labs/phase1_scheduler_step", "-q")
    assert output.count("\nHint: ") == 1, output
    assert output.count(LATER) == output.count("\n____") - 1 > 0


def test_tests_that_fail_alike_are_named_and_counted(output: str) -> None:
    assert "One more test fails like this: test_admission[a waiting request takes hit blocks]" in output
    assert "failed alike" in output.splitlines()[-1]


def test_random_cases_of_a_later_task_wait_for_the_named_tests(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    wrong = solution(1).replace("    while waiting and ", "    waiting.peek_request()\n    while waiting and ")
    checkout.starter(1).write_text(wrong, encoding="utf-8")
    output = checkout.pytest("labs/phase1_scheduler_step", "-q")
    assert output.count("no request is waiting: the queue is empty") == 1, output
    assert "22 random cases not shown yet" in output.splitlines()[-1]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("The rule.\n\n  a=1\nHint: 3 or 4?", "The rule.\n\n  a=2\nHint: 5 or 6?", True),
        ("The rule.\n\n  a=1\nHint: why?", "Another rule.\n\n  a=1\nHint: why?", False),
        (
            "A.\n\nKeyError: 'A'\n  labs/phase1_scheduler_step/starter.py:7, in f: x\nHint: a",
            "B.\n\nKeyError: 'B'\n  labs/phase1_scheduler_step/starter.py:7, in f: x\nHint: b",
            True,
        ),
        (
            "A.\n\nKeyError: 'A'\n  labs/phase1_scheduler_step/starter.py:7, in f: x",
            "A.\n\nKeyError: 'A'\n  labs/phase1_scheduler_step/starter.py:9, in f: y",
            False,
        ),
        (
            "Your code was still running after 10 seconds.\n  labs/phase1_scheduler_step/starter.py:7, in f: x",
            "Your code was still running after 1 second.\n  labs/phase1_scheduler_step/starter.py:7, in f: x",
            True,
        ),
        (
            f"A.\n\n{UNUSABLE}  Cache.look(request=A) -> ([7], 4)",
            f"B.\n\n{UNUSABLE}  Cache.look(request=B) -> ([], 0)",
            True,
        ),
        (f"A.\n\n{UNUSABLE}  Cache.look(request=A) -> 4", f"A.\n\n{UNUSABLE}  Cache.evict(block_id=4) -> 4", False),
    ],
)
def test_alike_is_the_same_rule_and_question_or_the_same_line(one: str, other: str, alike: bool) -> None:
    assert (mistake_in(one) == mistake_in(other)) is alike
