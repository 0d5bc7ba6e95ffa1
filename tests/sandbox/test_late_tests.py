"""Endless loops cost a run of graded tests little more than twice the time limit of a single test."""

from mini_vllm_labs.runs.sandbox.late_tests import LEAST_SECONDS, LateTests

TASKS = [f"labs/phase1_scheduler_step/test_task1_{task}_name.py::test" for task in range(1, 8)]


def spent(late: LateTests, tests: list[str], seconds: float) -> float:
    """Return how many seconds these tests cost if none of them finishes."""
    total = 0.0
    for test in tests:
        limit = late.seconds(test, seconds)
        if limit:
            total += limit
            late.add(test)
    return total


def test_each_late_test_halves_the_limit_of_the_next() -> None:
    late = LateTests()
    assert late.seconds(TASKS[0], 8.0) == 8.0
    late.add(TASKS[0])
    assert [late.seconds(test, 8.0) for test in TASKS[:2]] == [4.0, 4.0]
    late.add(TASKS[1])
    assert late.seconds(TASKS[2], 8.0) == 2.0


def test_the_rest_of_a_task_with_two_late_tests_is_not_run() -> None:
    late = LateTests([TASKS[0], TASKS[0]])
    assert late.seconds(TASKS[0], 8.0) == 0
    assert late.seconds(TASKS[1], 8.0) == 2.0


def test_a_run_in_which_no_test_ends_costs_about_twice_the_limit() -> None:
    assert spent(LateTests(), [test for test in TASKS for _ in range(20)], 5.0) < 10 + 2 * len(TASKS) * LEAST_SECONDS


def test_a_limit_below_the_least_stays_as_it_is() -> None:
    assert LateTests(TASKS).seconds(TASKS[0].replace("task1_1", "task2_1"), 0.1) == 0.1
