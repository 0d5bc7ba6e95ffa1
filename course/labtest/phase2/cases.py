"""Random use of the learner's manager, compared with recorded answers."""

import random
from collections.abc import Iterator, Sequence
from types import ModuleType

from course.labtest.expect import Told
from course.labtest.phase2.manager_harness import ManagerHarness
from course.labtest.recorded import Answers, first_difference
from course.labtest.support import make_request, some_ids, with_a_past
from mini_vllm.core.request import Request, RequestStatus

SEEDS = (1, 2, 3, 4, 5)
PRIME = 2**61 - 1  # of the hashes of numbers in 64 bits
NUM_STATES = 60
SHOWN = ("returned", "tables", "num_free", "cache_calls", "free_queue", "holders", "usage")
STATUS_WHEN_FREED = (RequestStatus.PREEMPTED, RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_ABORTED)


def managers_differ(phase2: ModuleType, answers: Answers, rng: random.Random, *, with_free: bool) -> list[str]:
    """Use managers at random, the last one in a large memory; return how each first differs from the recorded calls."""

    def differs(seed: float, many: int) -> str:
        return first_difference(answers, lambda: random_use(phase2, drawn_from(seed), many, with_free=with_free))

    return [differs(rng.random(), many) for many in (*[1] * NUM_STATES, 15)]


def drawn_from(seed: float) -> random.Random:
    """Return `random.Random(seed)` as it is in 64 bits: it takes the hash of a float, which is another one in 32."""
    numerator, denominator = seed.as_integer_ratio()
    return random.Random(numerator * pow(denominator, -1, PRIME) % PRIME)


def random_use(
    phase2: ModuleType, rng: random.Random, many: int = 1, *, with_free: bool
) -> Iterator[tuple[dict[str, object], Told]]:
    """Use the manager at random; yield after each call what it shows, and what a report says beside it."""
    num_usable, block_size = rng.randint(3, 12) * many, rng.choice((1, 2, 4, 16))
    harness = ManagerHarness(phase2, num_usable, block_size)
    told: Told = {
        "rule": "After these calls your manager and the reference differ.",
        "situation": harness.history,
        "hint": "which rule of the handout is about what differs, and what does it say of the last call?",
    }
    names = some_ids(rng, 4 if many == 1 else 8)
    requests: dict[str, Request] = {}
    for _ in range(rng.randint(4, 12) if many == 1 else 45):
        if with_free and rng.random() < 0.05:
            harness.use_another()
        name = rng.choice(names)
        request = requests.get(name)
        if request is not None and with_free and rng.random() < 0.35:
            request.status = rng.choice(STATUS_WHEN_FREED)
            harness.free(request)
            del requests[name]
            harness.answer = None
            yield _shown(harness, with_free), told
            continue
        request, num_new, hits, lookahead = _random_call(rng, name, request, num_usable, block_size)
        if name not in requests:
            harness.look(request, hits)
        harness.allocate(request, num_new, hits, lookahead, advance=False)
        yield _shown(harness, with_free), told
        if harness.answer is not None:
            requests[name] = request
            _advance(rng, request, len(hits) * block_size, num_new)


def _shown(harness: ManagerHarness, with_free: bool) -> dict[str, object]:
    shown = harness.shown(SHOWN if with_free else SHOWN[:4])
    if with_free:
        shown["ref_counts"] = list(harness.holders().items())  # JSON has no numbers as keys
    return shown


def _random_call(
    rng: random.Random, name: str, request: Request | None, num_usable: int, block_size: int
) -> tuple[Request, int, Sequence[int], int]:
    lookahead = rng.choice((0, 0, 0, 1, 3, 20))
    if request is not None:
        return request, rng.choice((1, 1, 1, 2, 5, max(1, block_size - 1), block_size, block_size + 1)), (), lookahead
    num_tokens, num_hits = rng.randint(1, 4 * block_size + 3), rng.choice((0, 1, 2, 3))
    if num_usable > 50:  # a large memory: long tables, and hits that all requests share
        num_tokens, num_hits = block_size * rng.randint(8, 50), rng.choice((0, 7, 40))
    request = with_a_past(rng, make_request(name, num_tokens))
    request.status = RequestStatus.PREEMPTED if request.num_preemptions else RequestStatus.WAITING
    num_hits = min(num_hits, (request.num_tokens - 1) // block_size)
    hits = rng.sample(range(1, min(num_usable, 45) + 1), min(num_hits, num_usable))
    as_given = rng.choice((list, tuple))(hits)
    return request, rng.randint(1, request.num_tokens - len(hits) * block_size), as_given, lookahead


def _advance(rng: random.Random, request: Request, num_hit_tokens: int, num_new: int) -> None:
    """Count new tokens as computed: mostly all, sometimes fewer (drafts were rejected), sometimes none yet."""
    num_kept = rng.choice((num_new, num_new, num_new, num_new - 1, 0))
    request.status, request.num_computed_tokens = RequestStatus.RUNNING, request.num_computed_tokens + num_hit_tokens
    request.num_computed_tokens += num_kept
    while request.num_tokens <= request.num_computed_tokens - rng.choice((0, 0, 0, 2)):  # or a step is planned ahead
        request.all_token_ids.append(7)
