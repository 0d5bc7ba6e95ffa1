"""The output of a failing `pytest labs`: the learner's own lines, an explanation, and none of the course's code."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mini_vllm_labs.grading.labtest.hooks import VM_STATUS
from mini_vllm_labs.grading.plan import load_plan
from tests.grading.checkout import PHASES, ROOT, Checkout, solution, with_line
from tests.grading.forked import OURS, forked

LOOPS = {1: "clamp", 2: "popleft", 3: "preempt", 4: "evict", 5: "should_sample", 6: "kv_block_bytes"}
LOOP = "while id(None): turn = 7"
POPLEFT = "popped and empty"
COURSE_MAP = ROOT / "labs" / "README.md"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("course"))


@pytest.fixture(autouse=True)
def _untouched(checkout: Checkout) -> Iterator[None]:
    yield
    checkout.clear()


def folder(checkout: Checkout, phase: int) -> str:
    return checkout.starter(phase).parent.relative_to(checkout.folder).as_posix()


def fail(checkout: Checkout, phase: int, function: str, line: str, *options: str) -> str:
    checkout.starter(phase).write_text(with_line(solution(phase), function, line), encoding="utf-8")
    output = checkout.pytest(folder(checkout, phase), "-q", "-x", *options)
    assert not OURS.search(output), output
    return output


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    checkout = Checkout(tmp_path_factory.mktemp("loops"))
    jobs = [(phase, with_line(solution(phase), LOOPS[phase], LOOP)) for phase in PHASES]
    return dict(zip(PHASES, forked(checkout, jobs, "--timeout=1", "-x"), strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes")
@pytest.mark.parametrize("phase", PHASES)
def test_an_endless_loop_is_ended_and_shown(endless: dict[int, str], phase: int) -> None:
    output = endless[phase]
    assert "Your code was still running after 1 second." in output
    place = rf"^  labs/phase{phase}_\w+/starter.py:\d+, in .*: {re.escape(LOOP)}\n  there: turn = 7$"
    assert re.search(place, output, re.MULTILINE)
    assert "Hint: what changes from one turn of this loop to the next" in output
    assert "1 failed" in output
    assert not OURS.search(output), output


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes")
def test_the_course_map_shows_a_real_failure(tmp_path: Path) -> None:
    wrong = re.sub(r" +scheduler_output.token_budget -= .*\n", "", solution(1))
    (output,) = forked(Checkout(tmp_path), [(1, wrong)], "-m", "task1_2")
    shown = re.search(r"the last failure of task 1.2 is:\n\n```\n(.*?)```", COURSE_MAP.read_text("utf-8"), re.DOTALL)
    assert shown is not None
    assert shown[1] in output


@pytest.mark.parametrize("options", [("--timeout-method=thread",), ("-n", "1")], ids=["by a thread", "xdist"])
def test_the_limit_holds_everywhere(checkout: Checkout, options: tuple[str, ...]) -> None:
    output = fail(checkout, 2, "popleft", LOOP, "--timeout=1", "-k", POPLEFT, *options)
    assert "Your code was still running after 1 second." in output
    assert "in FreeKVCacheBlockQueue.popleft: while id(None): turn = 7" in output
    assert "FreeKVCacheBlockQueue(blocks [7, 3, 5])" in output


def test_a_loop_that_cannot_be_stopped_ends_pytest_with_a_message(checkout: Checkout) -> None:
    line = "import time; time.sleep(60)"
    checkout.starter(5).write_text(with_line(solution(5), "should_sample", line), encoding="utf-8")
    output = checkout.pytest(folder(checkout, 5), "-x", "--timeout=1", "--timeout-method=thread", "-m", "task5_3")
    assert "your code was still running after 10 seconds and cannot be stopped" in output


def test_without_an_option_the_course_sets_the_limit(checkout: Checkout) -> None:
    program = "import time; t = time.process_time()\n        while time.process_time() < t + 6: turn = 7"
    output = fail(checkout, 5, "should_sample", program, "-m", "task5_3", "-k", "prompt and long")
    assert "still running after 5 seconds" in output


def test_the_rest_of_a_task_is_not_run_after_two_tests_that_did_not_end(checkout: Checkout) -> None:
    checkout.starter(5).write_text(with_line(solution(5), "should_sample", LOOP), encoding="utf-8")
    output = checkout.pytest(folder(checkout, 5), "-m", "task5_3", "--timeout=0.4")
    num_left = len(load_plan()[4].tasks[2].tests) - 2
    assert f", {num_left} not run after two that did not end" in output
    assert "Your code was still running after 0.4 seconds." in output


def test_an_endless_import_is_reported_once(checkout: Checkout) -> None:
    checkout.starter(3).write_text("while True: pass\n", encoding="utf-8")
    output = checkout.pytest(folder(checkout, 3), "-q", "--timeout=1", "-m", "task3_3")
    assert output.count("labs/phase3_preemption/starter.py cannot be imported.") == 1
    assert "still running after 1 second" in output
    assert not OURS.search(output), output


def test_a_starter_that_imports_the_course_is_refused_in_words(checkout: Checkout) -> None:
    checkout.starter(5).write_text("from mini_vllm_labs.grading.plays import phase5_plays\n", encoding="utf-8")
    output = checkout.pytest(folder(checkout, 5))
    refusal = "starter.py, line 1 imports mini_vllm_labs.grading.plays.phase5_plays: your answer must be in"
    assert output.count(refusal) == 1
    (graded,) = checkout.grade("--phase", "5", engines=False)["phases"]
    assert refusal in graded["error"]
    assert graded["points"] == 0


def test_a_syntax_error_is_reported_once(checkout: Checkout) -> None:
    checkout.starter(3).write_text("x = 1\ndef broken(:\n", encoding="utf-8")
    output = checkout.pytest(folder(checkout, 3), "-q")
    assert output.count("labs/phase3_preemption/starter.py has a syntax error in line 2") == 1
    assert "not loaded" in output.splitlines()[-1]
    assert not OURS.search(output), output


def test_a_recursion_is_explained(checkout: Checkout) -> None:
    output = fail(checkout, 4, "hit_rate", "return self.hit_rate()")
    assert "Your calls never ended (RecursionError)." in output
    assert output.count("return self.hit_rate()") == 1


@pytest.mark.skipif(not VM_STATUS.is_file(), reason="memory is limited where Linux tells how much is used")
def test_a_list_that_grows_without_end_is_explained(checkout: Checkout) -> None:
    output = fail(checkout, 4, "hit_rate", "grows = [0]\n        while True: grows *= 2")
    assert "Your code used more memory than a test allows (MemoryError)." in output
    assert "while True: grows *= 2" in output


ANSWERS = {
    (2, "popleft", "return None"): "FreeKVCacheBlockQueue.popleft() -> None\n  its signature promises: KVCacheBlock",
    (2, "get_new_blocks", "return [None]"): "BlockPool.get_new_blocks(num_blocks=0) -> [None]",
    (3, "__iter__", "return None"): "PriorityRequestQueue.__iter__() -> None",
    (3, "choose_victim", "return [].victim"): "  choose_victim([A (priority 9, arrived 9.0)",
    (4, "cached_blocks", "return None"): "HashPrefixCache.cached_blocks() -> None",
    (1, "clamp", "return num_new.nothing"): "there: num_new = 8",
    (1, "clamp", "return {}['A']"): "KeyError: 'A'",
}


@pytest.fixture(scope="module")
def unusable(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The output for each return value that prevents a test from continuing."""
    checkout = Checkout(tmp_path_factory.mktemp("answers"))
    jobs = [(phase, with_line(solution(phase), function, line)) for phase, function, line in ANSWERS]
    return list(forked(checkout, jobs))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes")
@pytest.mark.parametrize("index", range(len(ANSWERS)), ids=[f"{name}: {line}" for _, name, line in ANSWERS])
def test_what_cannot_be_used_is_shown_without_our_code(unusable: list[str], index: int) -> None:
    output = unusable[index]
    assert list(ANSWERS.values())[index] in output, output
    assert "\nHint: " in output
    assert not OURS.search(output), output


def test_a_wrong_signature_is_shown_with_the_right_one(checkout: Checkout) -> None:
    wrong = solution(1).replace("budget: int, threshold: int) -> int", "budget: int) -> int")
    checkout.starter(1).write_text(wrong, encoding="utf-8")
    output = checkout.pytest(folder(checkout, 1), "-q", "-m", "task1_1")
    assert "expected: clamp(num_new, budget, threshold)" in output
    assert not OURS.search(output), output


def test_an_untouched_task_is_one_line_per_test(checkout: Checkout) -> None:
    output = checkout.pytest("labs/phase2_block_pool", "-m", "task2_1")
    lines = output.splitlines()
    told = [line for line in lines if line.startswith("Phase 2, task 1: make the free queue   (test_")]
    assert len(told) > 10
    assert "FAILURES" not in output
    assert not OURS.search(output), output
    assert "next: Phase 2, task 1: make the free queue" in lines
    assert "      the task: labs/phase2_block_pool/README.md" in lines
    assert "      then: LAB_IMPL=starter pytest labs/phase2_block_pool -m task2_1" in lines
    (where,) = (line for line in lines if line.startswith("      open labs/phase2_block_pool/starter.py, lines "))
    first, last = (int(word) for word in where.split() if word.strip(":").isdigit() for word in [word.strip(":")])
    source = checkout.starter(2).read_text(encoding="utf-8").splitlines()
    assert source[first - 1].strip().startswith("def __init__")
    assert "make the free queue" in source[last - 1]


def test_many_untouched_tasks_are_one_line_per_task(checkout: Checkout) -> None:
    lines = checkout.pytest("labs/phase2_block_pool", "labs/phase3_preemption", "-q").splitlines()
    assert "Phase 3, task 2: choose_victim   (" in "\n".join(lines)
    assert len(lines) < 40
