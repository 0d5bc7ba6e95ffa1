"""A harness for the learner's KV cache manager: it records every call and checks that nothing else changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, TypedDict, Unpack

from course.labtest.crash_hints import CrashHint, learners_call
from course.labtest.expect import alone, as_block_ids, expect_equal, expect_unchanged, other_call
from course.labtest.phase2.doubles import RecordingPrefixCache
from course.labtest.support import fields_of, make_request
from mini_vllm.core.request import Request

ALLOCATE_HINTS = (
    CrashHint(
        ValueError,
        "was it known before anything was taken that the free queue holds enough? Which blocks leave it in this call: "
        "only the new ones, or hit blocks too?",
        inside="popleft",
    ),
    CrashHint(KeyError, "a request that is being admitted has no block table yet: how do you look it up?"),
    CrashHint(
        (AttributeError, TypeError), "`hit_blocks` may be a tuple: which of your lines needs a list?", word="tuple"
    ),
)
FREE_HINTS = (
    CrashHint(KeyError, "a request that holds nothing can be freed too: what does your dict do with an id it lacks?"),
)


class Shown(TypedDict, total=False):
    """What a test can expect of the manager after a call."""

    returned: Sequence[int] | None
    tables: Mapping[str, Sequence[int]]
    num_free: int
    free_queue: Sequence[int]
    holders: Mapping[int, int]
    usage: float
    cache_calls: Sequence[str]


ANSWER = (
    "the tables are as expected, the answer is not. Which blocks were taken from the free queue in this call, and "
    "which list do you return?"
)
REFUSED_BEFORE = (
    "a call before the last one was refused: its answer is None, and it should have got its blocks. How many did it "
    "need, and how many were free?"
)
REFUSED = (
    "this call is refused, and by the rules it gets its blocks. How many does it take, how many of its hit blocks lie "
    "in the free queue, and how many blocks are free?"
)
BY_THE_IDS = (
    "your list of free blocks goes by their ids. Is that the order in which they are handed out, or do you sort them "
    "where you report them?"
)
HELD = (
    "`ref_counts` alone differs: a block counts once for each table that it stands in. From where does your code have "
    "the numbers, and which of your lines change them?"
)
ORDER = (
    "the right blocks stand in the table, in another order. Its first entry holds the first tokens: in which order "
    "does your code put blocks into it, hits and new ones?"
)
UNHELD = "`ref_counts` alone differs: it names blocks with 0 holders. Which blocks belong in it?"
CALL_RULES = {
    "cache_full_blocks": "Its numbers count full blocks: by the tokens computed before the call, and by those known "
    "after it. From what does your code count each?",
    "drop_uncomputed": "A block is full with its last token: with 3 of 4 it is not. At which place of the table, first "
    "block first, does your list begin?",
}
LABELS = {
    "returned": "allocate_slots",
    "tables": "block tables",
    "num_free": "num_free_blocks",
    "free_queue": "free_block_ids",
    "holders": "ref_counts",
    "usage": "usage",
    "cache_calls": "cache calls",
}


class ManagerHarness:
    """The learner's manager, the requests that it serves, and a prefix cache that records its calls."""

    def __init__(self, phase2: ModuleType, num_usable_blocks: int, block_size: int = 4) -> None:
        self.history = [f"{num_usable_blocks} usable blocks of {block_size} tokens, and the null block"]
        self.cache = RecordingPrefixCache()
        with learners_call(self.history):
            self.kv: Any = phase2.PagedKVCacheManager(num_usable_blocks + 1, block_size, self.cache)
        self.block_size = block_size
        self.names: list[str] = []
        self.raw_answer: Any = None
        self.answer: list[int] | None = None
        self.is_refused = self.was_refused = False

    def allocate(
        self,
        request: Request,
        num_new_tokens: int,
        hits: Sequence[int] = (),
        lookahead: int = 0,
        *,
        advance: bool = True,
    ) -> list[int] | None:
        """Call `allocate_slots`; on success count the new tokens (and the hits) as computed, as a scheduler would."""
        if request.request_id not in self.names:
            self.names.append(request.request_id)
            request.block_hashes.append(b"phase 4's")  # must still be there after the call
        call = f"allocate_slots({request.request_id}, {num_new_tokens}"
        call += f", hit_blocks={hits}" if hits else ""
        call += f", num_lookahead_tokens={lookahead}" if lookahead else ""
        call += f")   {request.request_id}: {request.num_computed_tokens} computed of {request.num_tokens} tokens"
        self.history.append(call)
        extra = {"num_lookahead_tokens": lookahead} if lookahead else {}
        given_hits = list(hits) if isinstance(hits, list) else tuple(hits)
        before = fields_of(request) | {"hit_blocks": list(hits)}
        self.was_refused |= self.is_refused
        with learners_call(self.history, ALLOCATE_HINTS):
            self.raw_answer = self.kv.allocate_slots(request, num_new_tokens, given_hits, **extra)
        self.answer = None if self.raw_answer is None else as_block_ids(self.raw_answer, "allocate_slots", self.history)
        self.history[-1] += f"  -> {self.answer}"
        self.is_refused = self.answer is None
        self._check_unchanged("allocate_slots", before, fields_of(request) | {"hit_blocks": list(given_hits)})
        if self.answer is not None and advance:
            request.num_computed_tokens += len(hits) * self.block_size + num_new_tokens
        return self.answer

    def look(self, request: Request, hits: Sequence[int]) -> None:
        """Check that `get_computed_blocks` returns the hits that the prefix cache finds now, and changes nothing."""
        self.cache.hits[request.request_id] = list(hits)
        self.history.append(f"get_computed_blocks({request.request_id}); the prefix cache finds {list(hits)}")
        before, num_free = fields_of(request), self.kv.num_free_blocks
        with learners_call(self.history):
            found = as_block_ids(self.kv.get_computed_blocks(request), "get_computed_blocks", self.history)
        expect_equal(
            {"found": found, "num_free_blocks": self.kv.num_free_blocks},
            {"found": list(hits), "num_free_blocks": num_free},
            rule="get_computed_blocks returns what find_longest_cache_hit finds at this moment, for every request, and "
            "takes no block.",
            situation=self.history,
            hint="which method finds the hit, and is it called every time?",
        )
        self._check_unchanged("get_computed_blocks", before, fields_of(request))

    def free(self, request: Request) -> None:
        """Free with the request's counter as the argument, and the counter itself at another number: 0, or past it.

        A block table that was read before must not change: the running step still uses it.
        """
        name, computed = request.request_id, request.num_computed_tokens
        held = self.kv.block_ids(name)
        table = as_block_ids(held, "block_ids", self.history)
        request.num_computed_tokens = computed + self.block_size if computed % 2 else 0
        before = fields_of(request)
        self.history.append(
            f"free({name}, num_computed_tokens={computed})   {name}: {request.status.name}, its own counter is "
            f"{request.num_computed_tokens}"
        )
        with learners_call(self.history, FREE_HINTS):
            self.kv.free(request, computed)
        self._check_unchanged("free", before, fields_of(request))
        expect_equal(
            [int(block_id) for block_id in held],
            table,
            rule="A block table that block_ids has returned stays as it was when its request is freed: an aborted "
            "request can still be part of the step that is running, and that step writes where the table points.",
            situation=[*self.history, f"compared: the list that block_ids({name!r}) returned before the call"],
            hint="do you reverse or empty the list itself, or a copy of it?",
        )
        request.num_computed_tokens = computed

    def _check_unchanged(self, function: str, before: Mapping[str, object], after: Mapping[str, object]) -> None:
        expect_unchanged(
            after,
            before,
            rule=f"{function} changes neither the request nor the lists that it is given: the scheduler owns both.",
            situation=self.history,
            hint="which of your lines assigns to an argument, or changes it in place?",
        )

    def use_another(self) -> None:
        """Make a second manager and let it serve a request of a known name. State of the class would show."""
        self.history.append("another manager of 3 usable blocks is made: allocate_slots(A, 3) and free(A, 0) there")
        with learners_call(self.history):
            another = type(self.kv)(4, 2, RecordingPrefixCache())
            request = make_request("A", 3)
            another.allocate_slots(request, 3)
            another.free(request, 0)

    def tables(self) -> dict[str, list[int]]:
        """Return the block tables of all requests that this harness has served, without the empty ones."""
        with learners_call(self.history):
            answers = {name: self.kv.block_ids(name) for name in self.names}
        tables = {name: as_block_ids(answer, "block_ids", self.history) for name, answer in answers.items()}
        return {name: table for name, table in tables.items() if table}

    def free_queue(self) -> list[int]:
        with learners_call(self.history):
            return as_block_ids(self.kv.free_block_ids(), "free_block_ids", self.history)

    def holders(self) -> dict[int, int]:
        with learners_call(self.history):
            counts = self.kv.ref_counts()
        return {block_id: counts[block_id] for block_id in sorted(counts)}

    def shown(self, names: Collection[str]) -> dict[str, object]:
        self.calls = self.cache.take_calls()
        show: dict[str, Callable[[], object]] = {
            "returned": lambda: self.answer,
            "tables": self.tables,
            "num_free": lambda: self.kv.num_free_blocks,
            "free_queue": self.free_queue,
            "holders": self.holders,
            "usage": lambda: round(float(self.kv.usage), 6),
            "cache_calls": lambda: self.calls,
        }
        return {LABELS[name]: show[name]() for name in show if name in names}

    def check(self, rule: str, hint: str, **expected: Unpack[Shown]) -> None:
        """Compare what is named; `returned` is the last answer of `allocate_slots`."""
        given: Mapping[str, object] = {**expected}
        wanted = {LABELS[name]: given[name] for name in LABELS if name in given}
        yours = self.shown(expected)
        hint = alone(yours, wanted, (LABELS["num_free"], LABELS["usage"])) or hint
        if "tables" in expected and is_in_another_order(self.tables(), expected["tables"]):
            hint = ORDER
        if alone(yours, wanted, [LABELS["holders"]]):
            hint = UNHELD if 0 in self.holders().values() else HELD
        if "tables" in expected and alone(yours, wanted, [LABELS["returned"]]):
            hint = ANSWER
        if alone(yours, wanted, [LABELS["cache_calls"]]):
            other = other_call(self.calls, expected.get("cache_calls", ()), LABELS["cache_calls"], CALL_RULES)
            hint = f"the calls alone differ, the rest is as expected. {other}"
        right_calls = expected.get("cache_calls", self.calls)
        if pins := [call for call in self.calls if call.startswith("pin(") and call not in right_calls]:
            hint = f"{pins[0]} is none of the calls that the rules ask for here. Which blocks are pinned, and when?"
        if alone(yours, wanted, [LABELS["free_queue"]]) and (ids := self.free_queue()) == sorted(ids):
            hint = BY_THE_IDS
        if self.answer is None and given.get("returned") is not None:
            hint = REFUSED
        if given.get("returned", ()) is None:
            self.is_refused = False  # as it should be
        hint = REFUSED_BEFORE if self.was_refused else hint
        expect_equal(yours, wanted, rule=rule, situation=self.history, hint=hint)


def is_in_another_order(yours: Mapping[str, Sequence[int]], right: Mapping[str, Sequence[int]]) -> bool:
    """Return whether block tables have the right blocks and differ all the same."""
    return yours != right and {one: sorted(yours[one]) for one in yours} == {one: sorted(right[one]) for one in right}
