"""A harness for the learner's KV cache manager: it records every call and checks that nothing else changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, TypedDict, Unpack

from course.labtest.crash_hints import learners_call
from course.labtest.expect import alone, as_block_ids, expect_equal, expect_unchanged, other_call
from course.labtest.phase2 import manager_questions as ask
from course.labtest.phase2.doubles import RecordingPrefixCache
from course.labtest.support import fields_of, make_request
from mini_vllm.core.request import Request


class Shown(TypedDict, total=False):
    """What a test can expect of the manager after a call."""

    returned: Sequence[int] | None
    tables: Mapping[str, Sequence[int]]
    num_free: int
    free_queue: Sequence[int]
    holders: Mapping[int, int]
    usage: float
    cache_calls: Sequence[str]


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
        with learners_call(self.history, ask.ALLOCATE_HINTS):
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
        yours = {"found": found, "num_free_blocks": self.kv.num_free_blocks}
        expected = {"found": list(hits), "num_free_blocks": num_free}
        expect_equal(
            yours,
            expected,
            rule="get_computed_blocks returns what find_longest_cache_hit finds at this moment, for every request, and "
            "takes no block.",
            situation=self.history,
            hint=alone(yours, expected, ["num_free_blocks"])
            or "which method finds the hit, and is it called every time?",
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
        with learners_call(self.history, ask.FREE_HINTS):
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
        hint = alone(yours, wanted, [LABELS[name] for name in ("num_free", "usage", "tables")]) or hint
        wrong = {label for label in wanted if yours[label] != wanted[label]}
        if "returned" in expected and LABELS["tables"] in wrong <= {LABELS["tables"], LABELS["cache_calls"]}:
            hint = ask.TABLE
        if "tables" in expected and is_in_another_order(self.tables(), expected["tables"]):
            hint = ask.ORDER
        if alone(yours, wanted, [LABELS["holders"]]):
            hint = ask.UNHELD if 0 in self.holders().values() else ask.HELD
        right = expected.get("returned")
        if self.answer and right is not None and self.answer != right:
            as_many = "tables" in expected and len(self.answer) == len(right)
            if as_many or self.kv.num_free_blocks == expected.get("num_free"):
                hint = ask.OTHER_BLOCKS
        if alone(yours, wanted, [LABELS["returned"]]):
            hint = ask.ANSWER
        if wrong == {LABELS["cache_calls"]}:
            hint = "the calls alone differ, the rest is as expected. " if len(wanted) > 1 else ""
            hint += other_call(self.calls, expected.get("cache_calls", ()), LABELS["cache_calls"], ask.CALL_RULES)
        right_calls = expected.get("cache_calls", self.calls)
        if pins := [call for call in self.calls if call.startswith("pin(") and call not in right_calls]:
            hint = f"{pins[0]} is none of the calls that the rules ask for here. Which blocks are pinned, and when?"
        if alone(yours, wanted, [LABELS["free_queue"]]):
            hint = ask.QUEUE
        if self.answer is None and given.get("returned") is not None:
            hint = ask.REFUSED
        if given.get("returned", ()) is None:
            hint = ask.GRANTED if self.answer == [] else hint
            self.is_refused = False  # as it should be
        hint = ask.REFUSED_BEFORE if self.was_refused or (self.is_refused and "returned" not in given) else hint
        expect_equal(yours, wanted, rule=rule, situation=self.history, hint=hint)


def is_in_another_order(yours: Mapping[str, Sequence[int]], right: Mapping[str, Sequence[int]]) -> bool:
    """Return whether block tables have the right blocks and differ all the same."""
    return yours != right and {one: sorted(yours[one]) for one in yours} == {one: sorted(right[one]) for one in right}
