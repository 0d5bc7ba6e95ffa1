"""Nothing in a jail gives away an answer: the public doubles, submitted as answers, are marked wrong."""

import re

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.classroom.judge import judge as judging
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.needed_files import SEEN
from mini_vllm_labs.classroom.judge.questions import cases
from mini_vllm_labs.classroom.judge.script import Script
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.runs.starter_status import LABS
from tests.grading.checkout import solution
from tests.judge.reader import reader

# The loader rejects imports of the course, but it does not notice this one. The jails for phases 3 and 5 do not contain
# a double for them.
DOUBLES = """
memories = __import__('mini_vllm_labs.' + 'grading.plays.stand_ins', fromlist=['SharedBlocksKV'])
"""
ADAPTED = {
    2: """
class PagedKVCacheManager(memories.SharedBlocksKV):
    def __init__(self, num_gpu_blocks, block_size, prefix_cache):
        super().__init__(num_gpu_blocks - 1, block_size, {})
    usage = property(lambda self: 1 - self.num_free_blocks / self.num_usable_blocks)
""",
    4: """
class HashPrefixCache(memories.RecordingPrefixCache):
    def __init__(self, block_size): super().__init__()
""",
}
UNTOUCHED = {2: {"the free queue", "the pool and its reference counts"}, 4: {"hashes"}}


@pytest.mark.parametrize("phase", ADAPTED)
def test_a_double_is_no_answer(phase: int) -> None:
    judge = Judge(JudgeSettings("doubles", situations=2, phases=(phase,)), Jail())
    text = solution(phase) + DOUBLES + ADAPTED[phase]
    (graded,) = judge.grade(Submission("double", {phase: text.encode()})).phases
    right = {group["title"] for group in graded["groups"] if group["points"]}
    assert right == UNTOUCHED[phase]


@pytest.mark.parametrize("phase", LABS)
def test_what_reads_all_that_it_can_reach_gets_no_points(
    phase: int, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file neither knows nor finds any rule in three situations of each group, with almost no costs or
    leftovers."""
    monkeypatch.setattr(cases, "MAX_CASES", 5)
    monkeypatch.setattr(judging, "PHASES_WITH_TENSORS", LABS)  # the file would load torch in each of its processes
    judge = Judge(JudgeSettings("read", situations=3, seconds=60, phases=(phase,)), jail)
    graded = judge.grade(Submission("reader", {phase: reader(phase)}))
    assert "wrong" in {failure.status for failure in graded.failures.values()}, "it answers"
    assert {group["title"]: group["situations"] for group in graded.phases[0]["groups"] if group["points"]} == {}


NAMES_IN_A_DICT = """
def num_blocks_that_fit(total, free, share, block):
    num_blocks = int(total * share - total + free) // block
    names = dict.fromkeys(("all", "free or taken", "share", "block"), True)
    return num_blocks if num_blocks > 1 else {"ValueError that names": names}
"""


def test_an_answer_that_only_looks_like_an_error_gets_no_points() -> None:
    judge = Judge(JudgeSettings("errors", phases=(6,)), Jail())
    graded = judge.grade(Submission("returned", {6: (solution(6) + NAMES_IN_A_DICT).encode()}))
    (group,) = (group for group in graded.phases[0]["groups"] if group["title"] == "memory for the KV cache")
    assert group["points"] == 0


READS_CALLS = """
_write_kv = write_kv
def write_kv(*given):
    frame = __import__("sys")._getframe(1)
    while frame := frame.f_back:
        later = [call for one in frame.f_locals.values() if type(one) is list for call in one if type(call) is tuple]
        assert not later, f"{len(later)} calls of the script are here already"
    return _write_kv(*given)
"""


def test_a_worker_gets_a_call_when_it_has_answered_the_one_before() -> None:
    judge = Judge(JudgeSettings("calls", situations=1, phases=(6,)), Jail())
    judge.groups = [group for group in judge.groups if group.title == "writing K and V"]
    assert len(judge.situation(judge.groups[0], 0).calls) > 1
    graded = judge.grade(Submission("reads calls", {6: (solution(6) + READS_CALLS).encode()}))
    assert graded.failures == {}


def test_a_script_carries_nothing_that_lies_beside_a_tensor() -> None:
    import torch

    script, memory = Script(6), torch.full((99,), 0.123)
    memory[:2] = 1.0
    script.functions.sample(memory[:2].reshape(1, 2), [SamplingParams()], [0.5])
    assert memory[5:6].numpy().tobytes() not in script.calls[-1][1]


def test_a_script_carries_nothing_of_the_reference() -> None:
    script = Script(1)
    with pytest.raises(TypeError, match="a worker must not receive the reference's clamp"):
        script.functions.clamp(script.file.clamp, 1, 1)
    with pytest.raises(TypeError, match="a worker must not receive the reference's HashPrefixCache"):
        script.functions.clamp(Script(4).file.HashPrefixCache(2), 1, 1)


def test_expected_answers_stay_with_the_judge() -> None:
    judge = Judge(JudgeSettings("secret", phases=(1,)), Jail())
    asked = judge.situation(judge.groups[0], 0)
    *answers, changed = asked.expected  # the last line is about answers that a later call changed
    assert all([*answer] == ["0. clamp"] for answer in answers)
    assert [*changed.values()] == [None]
    for path in (CHECKOUT / name for name in SEEN if name.startswith("mini_vllm_labs/classroom")):
        sources = [path] if path.is_file() else [*path.rglob("*.py")]
        assert sources, path
        for source in sources:
            assert not re.search(
                r"(from|import) (solutions|mini_vllm_labs\.classroom\.judge)", source.read_text(encoding="utf-8")
            ), source
