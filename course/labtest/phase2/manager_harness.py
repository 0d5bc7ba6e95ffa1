"""A harness for the learner's KV cache manager: it records every call and checks that nothing else changes."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from course.labtest.block_ids import as_block_ids
from course.labtest.crash_hints import CrashHint, learners_call
from course.labtest.expect import expect_equal
from course.labtest.phase2.doubles import RecordingPrefixCache
from course.labtest.phase2.symptoms import (
    symptom_of_answer,
    symptom_of_calls,
    symptom_of_holders,
    symptom_of_number,
)
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
        self.question = ""
        self.last_hits: list[int] = []

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
            request.block_hashes.append(b"phase 4's")
        call = f"allocate_slots({request.request_id}, {num_new_tokens}"
        call += f", hit_blocks={hits}" if hits else ""
        call += f", num_lookahead_tokens={lookahead}" if lookahead else ""
        call += f")   {request.request_id}: {request.num_computed_tokens} computed of {request.num_tokens} tokens"
        self.history.append(call)
        self.last_hits = list(hits)
        num_hit = len(hits) * self.block_size
        parts = (request.num_computed_tokens, num_hit, num_new_tokens, lookahead)
        self.question = (
            f"{' + '.join(map(str, parts))} computed, hit, new and lookahead tokens: how many blocks of "
            f"{self.block_size} is that, and how many of them does {request.request_id} hold or hit before the call?"
        )
        extra = {"num_lookahead_tokens": lookahead} if lookahead else {}
        given_hits = list(hits) if isinstance(hits, list) else tuple(hits)
        before = fields_of(request) | {"hit_blocks": list(hits)}
        with learners_call(self.history, ALLOCATE_HINTS):
            self.raw_answer = self.kv.allocate_slots(request, num_new_tokens, given_hits, **extra)
        self.answer = None if self.raw_answer is None else as_block_ids(self.raw_answer, "allocate_slots", self.history)
        self.history[-1] += f"  -> {self.answer}"
        self._check_unchanged("allocate_slots", before, fields_of(request) | {"hit_blocks": list(given_hits)})
        if self.answer is not None and advance:
            request.num_computed_tokens += len(hits) * self.block_size + num_new_tokens
        return self.answer

    def free(self, request: Request) -> None:
        """Free with the request's counter as the argument, and the counter itself at 0: the argument counts.

        A block table that was read before must stay as it was: a step that is running still uses it.
        """
        name, computed = request.request_id, request.num_computed_tokens
        held = self.kv.block_ids(name)
        table = as_block_ids(held, "block_ids", self.history)
        request.num_computed_tokens = 0
        before = fields_of(request)
        self.last_hits = []
        self.history.append(f"free({name}, num_computed_tokens={computed})   {name}: {request.status.name}")
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
        changed = [name for name, value in before.items() if after[name] != value]
        expect_equal(
            {name: after[name] for name in changed},
            {name: before[name] for name in changed},
            rule=f"{function} changes neither the request nor the lists that it is given: the scheduler owns both.",
            situation=self.history,
            hint="which of your lines assigns to an argument, or changes it in place?",
        )

    def use_another(self) -> None:
        """Make a second manager, and let it serve a request of the same name as one here."""
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
            better_rule, better_hint = symptom_of_answer(returned["returned"], self.answer)
            if not better_rule:
                better_rule, better_hint = symptom_of_number(returned["returned"], self.answer, self.question)
            rule, hint = better_rule or rule, better_hint or hint
        if tables is not None:
            expected["block tables"] = {name: list(table) for name, table in tables.items()}
            yours["block tables"] = self.tables()
        if num_free is not None:
            expected["num_free_blocks"], yours["num_free_blocks"] = num_free, self.kv.num_free_blocks
        if free_queue is not None:
            expected["free_block_ids"], yours["free_block_ids"] = list(free_queue), self.free_queue()
        if holders is not None:
            expected["ref_counts"] = {block_id: holders[block_id] for block_id in sorted(holders)}
            yours["ref_counts"] = counts = self.holders()
            better_rule, better_hint = symptom_of_holders(holders, counts, self.last_hits)
            rule, hint = better_rule or rule, better_hint or hint
        calls = self.cache.take_calls()
        if cache_calls is not None:
            expected["cache calls"], yours["cache calls"] = list(cache_calls), calls
            if calls != cache_calls:
                better_rule, better_hint = symptom_of_calls(cache_calls, calls)
                rule, hint = better_rule or rule, better_hint or hint
        expect_equal(yours, expected, rule=rule, situation=self.history, hint=hint)
