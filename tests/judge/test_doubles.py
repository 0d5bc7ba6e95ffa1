"""Nothing that a jail shows answers a question: the public doubles, handed in as answers, are wrong."""

import re

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.classroom.judge.jail import SEEN, Jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.script import Script
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.runs.starter_status import starter_path
from tests.grading.checkout import solution

# An import of the course is refused; these are not seen.
DOUBLES = """
memories = __import__('mini_vllm_labs.' + 'grading.plays.stand_ins', fromlist=['SharedBlocksKV'])
stand_ins = __import__('mini_vllm_labs.' + 'grading.plays.scheduling_stand_ins', fromlist=['CallLog'])
"""
ADAPTED = {
    2: """
class PagedKVCacheManager(memories.SharedBlocksKV):
    def __init__(self, num_gpu_blocks, block_size, prefix_cache):
        super().__init__(num_gpu_blocks - 1, block_size, {})
    usage = property(lambda self: 1 - self.num_free_blocks / self.num_usable_blocks)
""",
    3: """
class RecomputePreemption(stand_ins.ScriptedPreemption):
    def __init__(self, policy): super().__init__(stand_ins.CallLog(), {}, None, None)
""",
    4: """
class HashPrefixCache(memories.RecordingPrefixCache):
    def __init__(self, block_size): super().__init__()
""",
    5: """
class ChunkedPrefillPolicy(stand_ins.ScriptedChunks):
    def __init__(self, *settings): super().__init__(stand_ins.CallLog(), None, {}, ())
""",
}
NOT_WRITTEN = re.compile(r"raise NotImplementedError\(.*?\)$", re.MULTILINE)
UNTOUCHED = {
    2: {"the free queue", "the pool and its reference counts"},
    3: {"the priority queue", "which request to preempt"},
    4: {"hashes"},
    5: set[str](),
}


@pytest.mark.parametrize("phase", ADAPTED)
def test_a_double_is_no_answer(phase: int) -> None:
    judge = Judge(JudgeSettings("doubles", situations=2, phases=(phase,)), Jail())
    text = solution(phase) + DOUBLES + ADAPTED[phase]
    (graded,) = judge.grade(Submission("double", {phase: text.encode()})).phases
    right = {group["title"] for group in graded["groups"] if group["points"]}
    assert right == UNTOUCHED[phase]


@pytest.mark.parametrize("phase", range(1, 15))
def test_what_does_nothing_gets_no_points(phase: int) -> None:
    """It costs nothing and leaves nothing behind, but its answers are wrong."""
    text = NOT_WRITTEN.sub("return None", starter_path(phase).read_text(encoding="utf-8"))
    judge = Judge(JudgeSettings("nothing", phases=(phase,)), Jail())
    (graded,) = judge.grade(Submission("nothing", {phase: text.encode()})).phases
    assert {group["title"]: group["situations"] for group in graded["groups"] if group["points"]} == {}


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


def test_a_script_carries_nothing_that_lies_beside_a_tensor() -> None:
    import torch

    script, memory = Script(6), torch.full((99,), 0.123)
    memory[:2] = 1.0
    script.functions.sample(memory[:2].reshape(1, 2), [SamplingParams()], [0.5])
    assert memory[5:6].numpy().tobytes() not in script.calls[-1][1]


def test_a_script_carries_nothing_of_the_reference() -> None:
    script = Script(1)
    with pytest.raises(TypeError, match="clamp of the reference must not enter a worker"):
        script.functions.clamp(script.file.clamp, 1, 1)
    with pytest.raises(TypeError, match="HashPrefixCache of the reference must not enter a worker"):
        script.functions.clamp(Script(4).file.HashPrefixCache(2), 1, 1)


def test_expected_answers_stay_with_the_judge() -> None:
    judge = Judge(JudgeSettings("secret", phases=(1,)), Jail())
    asked = judge.situation(judge.groups[0], 0)
    *answers, changed = asked.expected  # the last one is about answers that a later call changed
    assert all([*answer] == ["0. clamp"] for answer in answers)
    assert [*changed.values()] == [None]
    for path in (CHECKOUT / name for name in SEEN if name.startswith("mini_vllm_labs/classroom")):
        for source in path.rglob("*.py"):
            assert not re.search(
                r"(from|import) (solutions|mini_vllm_labs\.classroom\.judge)", source.read_text(encoding="utf-8")
            ), source
