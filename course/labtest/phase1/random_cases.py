"""Random situations and updates for the comparison with the slow model. Nothing here is to be filled in."""

import random
from collections.abc import Sequence

from course.labtest.phase1.situations import Situation
from course.labtest.phase1.updates import EOS, Update, caught_up
from course.labtest.support import make_request, some_ids, with_a_past
from mini_vllm.core.request import Request, RequestStatus


def random_situations(rng: random.Random, count: int, *, with_waiting: bool = True) -> list[Situation]:
    """Return small situations, one with 20 times as many requests, and one with requests 1,000 times as long."""
    sizes = [(1, 1)] * (count - 2) + [(20, 1), (1, 1000)]
    return [random_situation(rng, many, long, with_waiting=with_waiting) for many, long in sizes]


def random_situation(rng: random.Random, many: int, long: int, *, with_waiting: bool) -> Situation:
    """Return a situation with fresh, half computed and resumed requests, and memory that is short."""
    names = some_ids(rng, rng.randint(1, 7) if many == 1 else 7 * many)
    num_running = rng.randint(0, len(names)) if with_waiting else len(names)
    block_size = rng.choice((1, 2, 4))
    running = [_running_request(rng, name, long) for name in names[:num_running]]
    waiting = [_waiting_request(rng, name, long) for name in names[num_running:]]
    num_held = sum(-(-r.num_computed_tokens // block_size) for r in running)
    evictions = {
        r.request_id: rng.sample(names[:num_running], rng.randint(1, min(3, num_running)))
        for r in running
        if rng.random() < 0.5
    }
    changes = {
        name: _random_hits(rng, waiting, block_size) for name in names[: 7 * bool(waiting)] if rng.random() < 0.3
    }
    return Situation(
        running,
        waiting,
        budget=rng.choice((1, 4, 8, 12, 20, 40)) * many * long,
        max_num_seqs=rng.randint(max(1, num_running - 1), num_running + 4 * many),
        threshold=rng.choice((0, 0, 2, 5)) * long,
        num_blocks=num_held + rng.choice((0, 1, 2, 4, 8, 30)) * many * long,
        block_size=block_size,
        hits=_random_hits(rng, waiting, block_size),
        later_hits=[_random_hits(rng, (*running, *waiting), block_size) for _ in range(2)],
        hits_after={
            name: {r.request_id: found.get(r.request_id, []) for r in waiting} for name, found in changes.items()
        },
        evictions=evictions,
        not_now=[name for name in names if rng.random() < 0.07],
        not_admitted=[r.request_id for r in waiting if rng.random() < 0.07],
        whole_or_not=[name for name in names if rng.random() < 0.15],
    )


def _random_hits(rng: random.Random, requests: Sequence[Request], block_size: int) -> dict[str, list[int]]:
    return {
        r.request_id: rng.sample(range(50, 70), rng.randint(1, min(20, (r.num_tokens - 1) // block_size)))
        for r in requests
        if r.num_tokens > block_size and rng.random() < 0.4
    }


def _running_request(rng: random.Random, name: str, long: int) -> Request:
    num_output = rng.choice((0, 0, 1, 3))
    num_prompt = rng.randint(2, 12) * long
    num_tokens = num_prompt + num_output
    num_computed = num_tokens - 1 if rng.random() < 0.4 else rng.randint(1, num_tokens - 1)
    request = make_request(name, num_prompt, num_computed_tokens=num_computed, num_output_tokens=num_output)
    with_a_past(rng, request)
    if request.num_output_placeholders and rng.random() < 0.5:  # planned ahead: the tokens of a step are still to come
        request.num_computed_tokens = num_tokens
    return request


def _waiting_request(rng: random.Random, name: str, long: int) -> Request:
    num_output = rng.choice((0, 0, 0, 2))
    request = with_a_past(rng, make_request(name, rng.randint(1, 12) * long, num_output_tokens=num_output))
    request.num_output_placeholders, request.spec_token_ids = 0, []
    if num_output or rng.random() < 0.2:
        request.status = RequestStatus.PREEMPTED
    return request


def random_update(rng: random.Random, many: int = 1) -> Update:
    """Return an update with stops of every kind, gone requests, and requests that got no token."""
    names = some_ids(rng, rng.randint(1, 6) * many)
    requests = [
        caught_up(
            name,
            rng.randint(0, 3),
            num_prompt=rng.randint(1, 6),
            max_tokens=rng.randint(4, 7),
            stop_token_ids=rng.choice(((), (), (8, 9), (EOS,), (0,))),
            ignore_eos=rng.random() < 0.3,
        )
        for name in names
    ]
    for request in requests:
        with_a_past(rng, request).num_computed_tokens += request.num_output_placeholders
    gone = [name for name in names if rng.random() < 0.15]
    tokens = (EOS, 8, 0, 11, 12, 13)  # 0 is a token, and false
    sampled = {name: rng.choices(tokens, k=rng.randint(0, 3)) for name in names if rng.random() < 0.85}
    live = [r for r in requests if r.request_id not in gone]
    waiting = [r for r in live if rng.random() < 0.1]
    for request in waiting:
        request.preempt()
    return Update(
        [r for r in live if r not in waiting],
        dict(rng.sample(sorted(sampled.items()), len(sampled))),  # a runner promises no order
        planned=rng.sample(names, len(names)),
        gone=gone,
        waiting=waiting,
        max_model_len=rng.choice((8, 10, 1000)),
    )
