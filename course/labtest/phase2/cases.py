"""Situations and checks that several tasks of phase 2 use."""

import random
from collections.abc import Sequence
from types import ModuleType

from course.labtest.phase2.harness import ManagerBench
from course.labtest.phase2.reference_model import ListPool
from course.labtest.support import difference, make_request
from mini_vllm.core.request import Request, RequestStatus

SEEDS = (1, 2, 3, 4, 5)


NUM_STATES = 60


WAYS_OUT = (RequestStatus.PREEMPTED, RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_ABORTED)


def _manager_differs(phase2: ModuleType, rng: random.Random, *, with_free: bool) -> str:
    """Use the manager beside the slow model; return the report of the first use after which they differ."""
    num_usable, block_size = rng.randint(3, 12), rng.choice((1, 2, 4))
    bench = ManagerBench(phase2, num_usable, block_size)
    model = ListPool(num_usable + 1, block_size)
    requests: dict[str, Request] = {}
    for _ in range(rng.randint(4, 12)):
        if with_free and rng.random() < 0.05:
            bench.use_another()
        name = rng.choice("ABCD")
        request = requests.get(name)
        answer: list[int] | None = None
        hits: Sequence[int] = ()
        if request is not None and with_free and rng.random() < 0.35:
            request.status = rng.choice(WAYS_OUT)
            bench.given_hits = []
            bench.free(request)
            calls = model.free(name, request.num_computed_tokens)
            del requests[name]
            bench.answer = None
        else:
            request, num_new, hits, lookahead = _random_demand(rng, name, request, num_usable, block_size)
            answer, calls = model.allocate(
                name, request.num_computed_tokens, request.num_tokens, num_new, hits, lookahead
            )
            bench.allocate(request, num_new, hits, lookahead, advance=False)
            if answer is not None:
                requests[name] = request
                _advance(rng, request, len(hits) * block_size, num_new)
        report = difference(
            "After these uses your manager and a slow model of it do not hold the same.",
            before=bench.story,
            expected=_expected(model, answer, calls, with_free) | {"hit_blocks afterwards": list(hits)},
            yours=_held(bench, with_free),
            hint="go through the numbered rules of allocate_slots and of free with the last use: where do you part?",
        )
        if report:
            return report
    return ""


def _random_demand(
    rng: random.Random, name: str, request: Request | None, num_usable: int, block_size: int
) -> tuple[Request, int, Sequence[int], int]:
    lookahead = rng.choice((0, 0, 0, 1, 3))
    if request is not None:
        return request, rng.choice((1, 1, 1, 2, 5)), (), lookahead
    request = make_request(name, rng.randint(1, 4 * block_size + 3))
    num_hits = min(rng.choice((0, 1, 2, 3)), (request.num_tokens - 1) // block_size)
    hits = rng.sample(range(1, num_usable + 1), min(num_hits, num_usable))
    return request, rng.randint(1, request.num_tokens - len(hits) * block_size), hits, lookahead


def _advance(rng: random.Random, request: Request, num_hit_tokens: int, num_new: int) -> None:
    """Count new tokens as computed: mostly all, at times some (drafts were rejected), at times not yet."""
    num_kept = rng.choice((num_new, num_new, num_new, num_new - 1, 0))
    request.num_computed_tokens += num_hit_tokens + num_kept
    while request.num_tokens <= request.num_computed_tokens:
        request.all_token_ids.append(7)


def _expected(model: ListPool, answer: list[int] | None, calls: list[str], with_free: bool) -> dict[str, object]:
    expected: dict[str, object] = {
        "allocate_slots": answer,
        "block tables": dict(sorted(model.tables.items())),
        "num_free_blocks": len(model.free_blocks),
        "cache calls": calls,
    }
    if with_free:
        expected |= {
            "free_block_ids": model.free_blocks,
            "ref_counts": model.holders(),
            "usage": round(model.usage(), 6),
        }
    return expected


def _held(bench: ManagerBench, with_free: bool) -> dict[str, object]:
    kv = bench.kv
    yours: dict[str, object] = {
        "allocate_slots": bench.answer,
        "block tables": dict(sorted(bench.tables().items())),
        "num_free_blocks": kv.num_free_blocks,
        "cache calls": bench.cache.take_calls(),
        "hit_blocks afterwards": bench.given_hits,
    }
    if with_free:
        counts = kv.ref_counts()
        yours |= {
            "free_block_ids": [int(block_id) for block_id in kv.free_block_ids()],
            "ref_counts": {block_id: counts[block_id] for block_id in sorted(counts)},
            "usage": round(float(kv.usage), 6),
        }
    return yours
