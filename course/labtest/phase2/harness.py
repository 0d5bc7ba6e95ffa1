"""The free queue, the pool and the manager on a bench: every use is written down for the report."""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import pytest

from course.labtest.phase2.doubles import RecordingPrefixCache
from course.labtest.phase2.symptoms import symptom_of_commits
from course.labtest.support import compare, explained, make_request
from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request

ENOUGH = (
    "was it known before anything was taken that the free queue holds enough? Which blocks leave it in this call: "
    "only the new ones, or hit blocks too?"
)


class QueueBench:
    """Your free queue, and the blocks that go in and out of it."""

    def __init__(self, phase2: ModuleType, block_ids: Sequence[int]) -> None:
        self.popped = -1
        self.story = [f"queue = FreeKVCacheBlockQueue(blocks {list(block_ids)})"]
        self.blocks = {block_id: KVCacheBlock(block_id) for block_id in block_ids}
        self.queue = phase2.FreeKVCacheBlockQueue([self.blocks[block_id] for block_id in block_ids])

    def append(self, block_id: int) -> None:
        self.story.append(f"append({block_id})")
        with explained(self.story):
            self.queue.append(self.blocks.setdefault(block_id, KVCacheBlock(block_id)))

    def remove(self, block_id: int) -> None:
        self.story.append(f"remove({block_id})")
        with explained(self.story):
            self.queue.remove(self.blocks.setdefault(block_id, KVCacheBlock(block_id)))

    def popleft(self) -> int:
        self.story.append("popleft()")
        with explained(self.story):
            self.popped = int(self.queue.popleft().block_id)
        self.story[-1] += f" -> {self.popped}"
        return self.popped

    def use_another(self) -> None:
        """Make a second queue, of other blocks, and use both of its ends."""
        self.story.append("another queue is made of the blocks 91 to 93: popleft() and append(91) there")
        with explained(self.story):
            another = type(self.queue)([KVCacheBlock(block_id) for block_id in (91, 92, 93)])
            another.append(another.popleft())

    def state(self) -> dict[str, object]:
        """Return what the queue says of itself."""
        with explained(self.story):
            return {
                "block_ids()": [int(block_id) for block_id in self.queue.block_ids()],
                "num_free_blocks": self.queue.num_free_blocks,
            }

    def check(self, rule: str, hint: str, left: Sequence[int], popped: int | None = None) -> None:
        """Compare the queue with the ids that must be left, front first."""
        expected: dict[str, object] = {"block_ids()": list(left), "num_free_blocks": len(left)}
        yours = self.state()
        if popped is not None:
            expected["popleft()"], yours["popleft()"] = popped, self.popped
        compare(rule, before=self.story, expected=expected, yours=yours, hint=hint)


def check_value_error(act: Callable[[], object], rule: str, before: Sequence[str], hint: str) -> None:
    """Fail with a report unless `act` raises `ValueError`."""
    try:
        answer = act()
    except NotImplementedError:
        raise
    except ValueError:
        return
    except Exception as error:  # the learner reads its name in the report
        answer = f"raised {type(error).__name__}: {error}"
    else:
        answer = f"no error; returned {answer!r}"
    lines = "\n".join(f"  {line}" for line in before)
    pytest.fail(f"{rule}\n\n{lines}\n\n  expected   ValueError\n  yours      {answer}\nHint: {hint}", pytrace=False)


class PoolBench:
    """Your block pool, seen through what it hands out."""

    def __init__(self, phase2: ModuleType, num_gpu_blocks: int) -> None:
        self.story = [f"pool = BlockPool({num_gpu_blocks} blocks, block 0 is the null block)"]
        self.cache = RecordingPrefixCache()
        self.pool = phase2.BlockPool(num_gpu_blocks, self.cache)

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        self.story.append(f"get_new_blocks({num_blocks})")
        with explained(self.story):
            block_ids = [int(block_id) for block_id in self.pool.get_new_blocks(num_blocks)]
        self.story[-1] += f" -> {block_ids}"
        return block_ids

    def touch(self, *block_ids: int) -> None:
        for block_id in block_ids:
            self.story.append(f"touch({block_id})")
            with explained(self.story):
                self.pool.touch(block_id)

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        self.story.append(f"free_blocks({list(block_ids)})")
        with explained(self.story):
            self.pool.free_blocks(list(block_ids))

    def use_another(self) -> None:
        """Make a second pool, and use it."""
        self.story.append("another pool of 4 blocks is made: get_new_blocks(2), touch(1), free_blocks([2]) there")
        with explained(self.story):
            another = type(self.pool)(4, RecordingPrefixCache())
            another.get_new_blocks(2)
            another.touch(1)
            another.free_blocks([2])

    def check_handed_out(self, rule: str, hint: str, num_blocks: int, expected: Sequence[int]) -> None:
        """Take blocks, compare which, and whether the prefix cache was told of just these, in order."""
        self.cache.take_calls()
        yours = self.get_new_blocks(num_blocks)
        compare(
            rule,
            before=self.story,
            expected={"handed out": list(expected), "cache calls": [f"evict({block_id})" for block_id in expected]},
            yours={"handed out": yours, "cache calls": self.cache.take_calls()},
            hint=hint,
        )


class ManagerBench:
    """Your KV cache manager, the requests it serves, and the prefix cache that watches."""

    def __init__(self, phase2: ModuleType, num_usable_blocks: int, block_size: int = 4) -> None:
        self.story = [f"{num_usable_blocks} usable blocks of {block_size} tokens, and the null block"]
        self.cache = RecordingPrefixCache()
        self.kv = phase2.PagedKVCacheManager(num_usable_blocks + 1, block_size, self.cache)
        self.names: list[str] = []
        self.answer: list[int] | None = None
        self.given_hits: list[int] = []

    def allocate(
        self,
        request: Request,
        num_new_tokens: int,
        hits: Sequence[int] = (),
        lookahead: int = 0,
        *,
        advance: bool = True,
    ) -> list[int] | None:
        """Ask for slots; on success count the new tokens (and the hits) as computed, as a scheduler would."""
        if request.request_id not in self.names:
            self.names.append(request.request_id)
        call = f"allocate_slots({request.request_id}, {num_new_tokens}"
        call += f", hit_blocks={list(hits)}" if hits else ""
        call += f", num_lookahead_tokens={lookahead}" if lookahead else ""
        call += f")   {request.request_id}: {request.num_computed_tokens} computed of {request.num_tokens} tokens"
        self.story.append(call)
        extra = {"num_lookahead_tokens": lookahead} if lookahead else {}
        self.given_hits = list(hits)
        with explained(self.story, hint=ENOUGH):
            answer = self.kv.allocate_slots(request, num_new_tokens, self.given_hits, **extra)
        self.answer = None if answer is None else [int(block_id) for block_id in answer]
        self.story[-1] += f"  -> {self.answer}"
        if self.answer is not None and advance:
            request.num_computed_tokens += len(hits) * self.kv.block_size + num_new_tokens
        return self.answer

    def free(self, request: Request) -> None:
        """Free with the request's counter as the argument, and the counter itself at 0: the argument counts."""
        name, computed = request.request_id, request.num_computed_tokens
        request.num_computed_tokens = 0
        self.story.append(f"free({name}, num_computed_tokens={computed})   {name}: {request.status.name}")
        with explained(self.story):
            self.kv.free(request, computed)
        request.num_computed_tokens = computed

    def use_another(self) -> None:
        """Make a second manager, and let it serve a request of the same name as one here."""
        self.story.append("another manager of 3 usable blocks is made: allocate_slots(A, 3) and free(A, 0) there")
        with explained(self.story):
            another = type(self.kv)(4, 2, RecordingPrefixCache())
            request = make_request("A", 3)
            another.allocate_slots(request, 3)
            another.free(request, 0)

    def tables(self) -> dict[str, list[int]]:
        """Return the block tables of all requests that were ever here, without the empty ones."""
        tables = {name: [int(block_id) for block_id in self.kv.block_ids(name)] for name in self.names}
        return {name: table for name, table in tables.items() if table}

    def check(
        self,
        rule: str,
        hint: str,
        *,
        num_free: int | None = None,
        free_queue: Sequence[int] | None = None,
        tables: Mapping[str, Sequence[int]] | None = None,
        holders: Mapping[int, int] | None = None,
        cache_calls: Sequence[str] | None = None,
        **returned: object,
    ) -> None:
        """Compare what is named. `returned=` is compared with the last answer of `allocate_slots`."""
        expected: dict[str, object] = {}
        yours: dict[str, object] = {}
        if returned:
            expected["allocate_slots"], yours["allocate_slots"] = returned["returned"], self.answer
        if tables is not None:
            expected["block tables"] = {name: list(table) for name, table in tables.items()}
            yours["block tables"] = self.tables()
        if num_free is not None:
            expected["num_free_blocks"], yours["num_free_blocks"] = num_free, self.kv.num_free_blocks
        if free_queue is not None:
            expected["free_block_ids"] = list(free_queue)
            yours["free_block_ids"] = [int(block_id) for block_id in self.kv.free_block_ids()]
        if holders is not None:
            counts = self.kv.ref_counts()
            expected["ref_counts"] = {block_id: holders[block_id] for block_id in sorted(holders)}
            yours["ref_counts"] = {block_id: counts[block_id] for block_id in sorted(counts)}
        calls = self.cache.take_calls()
        if cache_calls is not None:
            expected["cache calls"], yours["cache calls"] = list(cache_calls), calls
            if calls != cache_calls:
                better_rule, better_hint = symptom_of_commits(cache_calls, calls)
                rule, hint = better_rule or rule, better_hint or hint
        compare(rule, before=self.story, expected=expected, yours=yours, hint=hint)
