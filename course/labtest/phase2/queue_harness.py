"""A harness for the learner's free queue and block pool: it records every call for the report."""

from collections.abc import Callable, Sequence
from types import ModuleType

from course.labtest.crash_hints import CrashHint, learners_call
from course.labtest.expect import alone, as_block_ids, expect_equal, lab_failure
from course.labtest.phase2.doubles import RecordingPrefixCache
from mini_vllm.core.block import KVCacheBlock

OTHER_WAY_ROUND = (
    "`block_ids()` is the expected list the other way round. At which end of the queue does it begin, and at which end "
    "does append put a block?"
)


class FreeQueueHarness:
    """The learner's free queue, and the blocks that go in and out of it."""

    def __init__(self, phase2: ModuleType, block_ids: Sequence[int]) -> None:
        self.popped = -1
        self.history = [f"queue = FreeKVCacheBlockQueue(blocks {list(block_ids)})"]
        self.blocks = {block_id: KVCacheBlock(block_id) for block_id in block_ids}
        self.queue = phase2.FreeKVCacheBlockQueue([self.blocks[block_id] for block_id in block_ids])

    def append(self, block_id: int) -> None:
        self.history.append(f"append({block_id})")
        with learners_call(self.history):
            self.queue.append(self.blocks.setdefault(block_id, KVCacheBlock(block_id)))

    def remove(self, block_id: int) -> None:
        self.history.append(f"remove({block_id})")
        with learners_call(self.history):
            self.queue.remove(self.blocks.setdefault(block_id, KVCacheBlock(block_id)))

    def popleft(self) -> int:
        self.history.append("popleft()")
        with learners_call(self.history):
            self.popped = int(self.queue.popleft().block_id)
        self.history[-1] += f" -> {self.popped}"
        return self.popped

    def use_another(self) -> None:
        """Make a second queue, of other blocks, and use both of its ends. State of the class would show."""
        self.history.append("another queue is made of the blocks 91 to 93: popleft() and append(91) there")
        with learners_call(self.history):
            another = type(self.queue)([KVCacheBlock(block_id) for block_id in (91, 92, 93)])
            another.append(another.popleft())

    def state(self) -> dict[str, object]:
        with learners_call(self.history):
            ids, count = self.queue.block_ids(), self.queue.num_free_blocks
        return {"block_ids()": as_block_ids(ids, "block_ids", self.history), "num_free_blocks": count}

    def check(self, rule: str, hint: str, left: Sequence[int], popped: int | None = None) -> None:
        """Compare the queue with the ids that must be left, front first."""
        expected: dict[str, object] = {"block_ids()": list(left), "num_free_blocks": len(left)}
        yours = self.state()
        if popped is not None:
            expected["popleft()"], yours["popleft()"] = popped, self.popped
        if yours["block_ids()"] == [*left[::-1]] != [*left]:
            hint = OTHER_WAY_ROUND
        hint = alone(yours, expected, ("num_free_blocks", "popleft()")) or hint
        expect_equal(yours, expected, rule=rule, situation=self.history, hint=hint)


def check_value_error(act: Callable[[], object], rule: str, history: Sequence[str], hint: str) -> None:
    """Fail with a report unless `act` raises `ValueError`."""
    try:
        answer = act()
    except NotImplementedError:
        raise
    except ValueError:
        return
    except Exception as error:  # the learner reads its name in the report
        answer = f"raised {type(error).__name__}: {error}"
        hint = "which error does the rule name, and which of your lines raises another one?"
    else:
        answer = f"no error; returned {answer!r}"
    lab_failure(rule=rule, situation=list(history), expected="ValueError", yours=answer, hint=hint)


NEW_BLOCKS_HINTS = (
    CrashHint(
        ValueError,
        "by the rules as many blocks are free as are requested. Which does your free queue hold before this call, and "
        "how many does this call take out of it?",
        inside="popleft",
    ),
    CrashHint(
        ValueError,
        "a block leaves the free queue once. Which of your lines takes it out, and does another one do so as well?",
        inside="remove",
    ),
    CrashHint(
        ValueError,
        "more blocks than are free are never requested. Which of your lines raises, and what does it compare?",
    ),
)


class PoolHarness:
    """The learner's block pool, seen through the blocks that it hands out."""

    def __init__(self, phase2: ModuleType, num_gpu_blocks: int) -> None:
        self.history = [f"pool = BlockPool({num_gpu_blocks} blocks, block 0 is the null block)"]
        self.cache = RecordingPrefixCache()
        with learners_call(self.history):
            self.pool = phase2.BlockPool(num_gpu_blocks, self.cache)

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        self.history.append(f"get_new_blocks({num_blocks})")
        with learners_call(self.history, NEW_BLOCKS_HINTS):
            answer = self.pool.get_new_blocks(num_blocks)
        block_ids = as_block_ids(answer, "get_new_blocks", self.history)
        self.history[-1] += f" -> {block_ids}"
        return block_ids

    def touch(self, *block_ids: int) -> None:
        for block_id in block_ids:
            self.history.append(f"touch({block_id})")
            with learners_call(self.history):
                self.pool.touch(block_id)

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        """Free a list of blocks; the list itself must not change."""
        given = list(block_ids)
        self.history.append(f"free_blocks({given})")
        with learners_call(self.history):
            self.pool.free_blocks(given)
        expect_equal(
            given,
            list(block_ids),
            rule="free_blocks leaves the list that it is given as it is: the list is the caller's.",
            situation=self.history,
            hint="which of your lines changes the order or the length of `block_ids`?",
        )

    def use_another(self) -> None:
        """Make a second pool, and use it. State of the class would show."""
        self.history.append("another pool of 4 blocks is made: get_new_blocks(2), touch(1), free_blocks([2]) there")
        with learners_call(self.history):
            another = type(self.pool)(4, RecordingPrefixCache())
            another.get_new_blocks(2)
            another.touch(1)
            another.free_blocks([2])

    def check_handed_out(self, rule: str, hint: str, num_blocks: int, expected: Sequence[int]) -> None:
        """Take blocks; compare which they are, and whether just these were evicted, in this order."""
        self.cache.take_calls()
        yours = self.get_new_blocks(num_blocks)
        seen = {"handed out": yours, "cache calls": self.cache.take_calls()}
        right = {"handed out": list(expected), "cache calls": [f"evict({block_id})" for block_id in expected]}
        hint = alone(seen, right, right) or hint
        expect_equal(seen, right, rule=rule, situation=self.history, hint=hint)
