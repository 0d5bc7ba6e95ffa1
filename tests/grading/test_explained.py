"""What a learner reads when `pytest labs` fails: their own lines, words, and none of our code."""

from collections.abc import Iterator

import pytest

from labs.limits import VM_STATUS
from tests.grading.checkout import PHASES, Checkout, solution, with_line
from tests.grading.wrong_shapes import OURS

LOOPS = {
    1: ("clamp", "test_clamp_chunks_and_budgets"),
    2: ("popleft", "test_popleft_takes_from_the_front_until_nothing_is_left"),
    3: ("preempt", "test_preemptions_add_up"),
    4: ("evict", "test_evict_says_whether_the_block_was_cached"),
    5: ("should_sample", "test_only_behind_the_last_known_token"),
    6: ("kv_block_bytes", ""),
}


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
    """Put a line into a function of the solved starter; return what the first failure of the phase says."""
    checkout.starter(phase).write_text(with_line(solution(phase), function, line), encoding="utf-8")
    said = checkout.pytest(folder(checkout, phase), "-q", "-x", *options)
    assert not OURS.search(said), said
    return said


@pytest.mark.parametrize("phase", PHASES)
def test_an_endless_loop_is_ended_and_shown(checkout: Checkout, phase: int) -> None:
    function = LOOPS[phase][0]
    said = fail(checkout, phase, function, "while id(None): turn = 7", "--timeout=1", "-k", LOOPS[phase][1])
    assert "Your code was still running after 1 second." in said
    assert f"{folder(checkout, phase)}/starter.py:" in said
    assert "while id(None): turn = 7" in said
    assert "turn = 7" in said.split("while id(None): turn = 7")[1]
    assert "Hint: what changes from one round of this loop to the next" in said
    assert "1 failed" in said


@pytest.mark.parametrize("options", [("--timeout-method=thread",), ("-n", "1")], ids=["by a thread", "xdist"])
def test_the_limit_holds_everywhere(checkout: Checkout, options: tuple[str, ...]) -> None:
    said = fail(checkout, 2, "popleft", "while id(None): turn = 7", "--timeout=1", "-k", LOOPS[2][1], *options)
    assert "Your code was still running after 1 second." in said
    assert "in FreeKVCacheBlockQueue.popleft: while id(None): turn = 7" in said
    assert "queue = FreeKVCacheBlockQueue(blocks [7, 3, 5])" in said


def test_a_loop_that_nothing_ends_ends_pytest_with_words(checkout: Checkout) -> None:
    line = "import time; time.sleep(60)"
    checkout.starter(5).write_text(with_line(solution(5), "should_sample", line), encoding="utf-8")
    said = checkout.pytest(folder(checkout, 5), "-x", "--timeout=1", "--timeout-method=thread", "-m", "task5_3")
    assert "your code was still running after 1 seconds, and cannot be stopped" in said


def test_without_a_wish_the_course_sets_the_limit(checkout: Checkout) -> None:
    program = "import time; t = time.monotonic()\n        while time.monotonic() < t + 11: turn = 7"
    said = fail(checkout, 5, "should_sample", program, "-m", "task5_3", "-k", "10-0-4")
    assert "still running after 10 seconds" in said


def test_an_endless_import_is_told_once(checkout: Checkout) -> None:
    checkout.starter(3).write_text("while True: pass\n", encoding="utf-8")
    said = checkout.pytest(folder(checkout, 3), "-q", "--timeout=1", "-m", "task3_3")
    assert said.count("labs/phase3_preemption/starter.py cannot be imported.") == 1
    assert "still running after 1 second" in said
    assert not OURS.search(said), said


def test_a_syntax_error_is_told_once(checkout: Checkout) -> None:
    checkout.starter(3).write_text("x = 1\ndef broken(:\n", encoding="utf-8")
    said = checkout.pytest(folder(checkout, 3), "-q")
    assert said.count("labs/phase3_preemption/starter.py has a syntax error in line 2") == 1
    assert "not loaded" in said.splitlines()[-1]
    assert not OURS.search(said), said


def test_a_recursion_is_told_in_words(checkout: Checkout) -> None:
    said = fail(checkout, 4, "hit_rate", "return self.hit_rate()")
    assert "The calls never came to an end (RecursionError)." in said
    assert said.count("return self.hit_rate()") == 1


@pytest.mark.skipif(not VM_STATUS.is_file(), reason="memory is limited where Linux tells how much is used")
def test_a_list_that_grows_for_ever_is_told_in_words(checkout: Checkout) -> None:
    said = fail(checkout, 4, "hit_rate", "grows = [0]\n        while True: grows *= 2")
    assert "Your code took more memory than a test may have (MemoryError)." in said
    assert "while True: grows *= 2" in said


@pytest.mark.parametrize(
    ("phase", "function", "line", "words"),
    [
        (2, "popleft", "return None", "its signature promises: KVCacheBlock"),
        (3, "choose_victim", "return [].victim", "the call: choose_victim(running="),
        (4, "cached_blocks", "return None", "HashPrefixCache.cached_blocks() -> None"),
        (1, "clamp", "return num_new.nothing", "there: num_new = 8"),
    ],
)
def test_what_cannot_be_used_is_shown_without_our_code(
    checkout: Checkout, phase: int, function: str, line: str, words: str
) -> None:
    said = fail(checkout, phase, function, line)
    assert words in said
    assert "\nHint: " in said


def test_an_untouched_task_is_one_line_per_test(checkout: Checkout) -> None:
    said = checkout.pytest("labs/phase2_block_pool", "-m", "task2_1")
    lines = said.splitlines()
    told = [line for line in lines if line.startswith("Phase 2, task 1: make the free queue   (test_")]
    assert len(told) > 10
    assert "FAILURES" not in said
    assert not OURS.search(said), said
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
