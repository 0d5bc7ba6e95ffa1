"""Random situations and updates for the comparison with the slow model. Nothing here is to be filled in."""

import random
from collections.abc import Sequence

from course.labtest.phase1.situations import Situation
from course.labtest.phase1.updates import EOS, Update, caught_up
from course.labtest.support import make_request
from mini_vllm.core.request import Request, RequestStatus

NAMES = ("A", "B", "C", "D", "9", "10", "r7", "Ä")  # "10" sorts before "9": ids are texts


def random_situation(rng: random.Random, *, with_waiting: bool = True) -> Situation:
    """Return a small situation with fresh, half computed and resumed requests, and memory that is short."""
    names = rng.sample(NAMES, rng.randint(1, 7))
    num_running = rng.randint(0, len(names)) if with_waiting else len(names)
    block_size = rng.choice((1, 2, 4))
    running = [_running_request(rng, name) for name in names[:num_running]]
    waiting = [_waiting_request(rng, name) for name in names[num_running:]]
    num_held = sum(-(-r.num_computed_tokens // block_size) for r in running)
    evictions = {
        r.request_id: rng.sample(names[:num_running], rng.randint(1, min(3, num_running)))
        for r in running
        if rng.random() < 0.5
    }
    return Situation(
        running,
        waiting,
        budget=rng.choice((1, 4, 8, 12, 20, 40)),
        max_num_seqs=rng.randint(max(1, num_running - 1), num_running + 4),
        threshold=rng.choice((0, 0, 2, 5)),
        num_blocks=num_held + rng.choice((0, 1, 2, 4, 8, 30)),
        block_size=block_size,
        hits=_random_hits(rng, waiting, block_size),
        later_hits=[_random_hits(rng, (*running, *waiting), block_size) for _ in range(2)],
        evictions=evictions,
        not_now=[name for name in names if rng.random() < 0.07],
        not_admitted=[r.request_id for r in waiting if rng.random() < 0.07],
        whole_or_not=[name for name in names if rng.random() < 0.15],
    )


def _random_hits(rng: random.Random, requests: Sequence[Request], block_size: int) -> dict[str, list[int]]:
    return {
        r.request_id: [50 + i for i in range(rng.randint(1, (r.num_tokens - 1) // block_size))]
        for r in requests
        if r.num_tokens > block_size and rng.random() < 0.4
    }


def _running_request(rng: random.Random, name: str) -> Request:
    num_output = rng.choice((0, 0, 1, 3))
    num_prompt = rng.randint(2, 12)
    num_tokens = num_prompt + num_output
    num_computed = num_tokens - 1 if rng.random() < 0.4 else rng.randint(1, num_tokens - 1)
    return make_request(name, num_prompt, num_computed_tokens=num_computed, num_output_tokens=num_output)


def _waiting_request(rng: random.Random, name: str) -> Request:
    num_output = rng.choice((0, 0, 0, 2))
    request = make_request(name, rng.randint(1, 12), num_output_tokens=num_output)
    if num_output:
        request.status = RequestStatus.PREEMPTED
        request.num_preemptions = rng.randint(1, 3)
    return request


def random_update(rng: random.Random) -> Update:
    """Return an update with stops of every kind, gone requests, and requests that got no token."""
    names = rng.sample(NAMES, rng.randint(1, 6))
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
    gone = [name for name in names if rng.random() < 0.15]
    tokens = (EOS, 8, 0, 11, 12, 13)  # 0 is a token, and false
    sampled = {name: rng.choices(tokens, k=rng.randint(0, 3)) for name in names if rng.random() < 0.85}
    return Update(
        [r for r in requests if r.request_id not in gone],
        dict(rng.sample(sorted(sampled.items()), len(sampled))),  # a runner promises no order
        planned=rng.sample(names, len(names)),
        gone=gone,
        max_model_len=rng.choice((8, 10, 1000)),
    )
