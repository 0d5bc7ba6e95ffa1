"""Questions to phase 1: `clamp` and `update_from_output`."""

from random import Random

from classroom.judge.questions.trial import Trial, trial
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.sampling_params import SamplingParams


def clamp_cases(rng: Random) -> Trial:
    """Tokens, budget and threshold, small ones and equal ones among them."""
    cases = [(rng.randrange(0, 40), rng.randrange(0, 40), rng.choice((0, rng.randrange(1, 40)))) for _ in range(20)]
    number = rng.randrange(1, 30)
    return trial(1, "clamp", [*cases, (number, number, number), (number, number - 1, number), (number, 0, 0)])


def update_cases(rng: Random) -> Trial:
    """Steps with one or several new tokens for each request, in another order than that of the running ones."""
    return trial(1, "update_from_output", rng.randrange(6, 12), [update_case(rng) for _ in range(6)])


def update_case(rng: Random) -> tuple[list[Request], list[int], dict[str, list[int]], list[int]]:
    """Six running requests: those planned, their sampled tokens, and those aborted meanwhile."""
    requests = []
    for number in range(6):
        stops = tuple(rng.sample(range(8), rng.randrange(4)))
        params = SamplingParams(max_tokens=rng.randrange(1, 6), stop_token_ids=stops, ignore_eos=rng.random() < 0.5)
        request = Request(f"r{number}", [9] * rng.randrange(1, 6), params, eos_token_ids=frozenset((1,)))
        request.status = RequestStatus.RUNNING
        requests.append(request)
    planned = rng.sample(range(6), rng.randrange(3, 7))
    sampled = {f"r{n}": [rng.randrange(8) for _ in range(rng.randrange(0, 4))] for n in planned if rng.random() < 0.9}
    in_no_order = dict(rng.sample(list(sampled.items()), len(sampled)))
    return requests, planned, in_no_order, rng.sample(range(6), rng.randrange(2))
