"""Questions to phase 1: `clamp` and `update_from_output`."""

from random import Random

from classroom.judge.question import JudgeQuestion
from classroom.judge.script import Script
from classroom.worker.doubles import Memory
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.sampling_params import SamplingParams


def clamp_cases(rng: Random) -> JudgeQuestion:
    """Random tokens, budget and threshold, small and equal ones among them."""
    script, number = Script(1), rng.randrange(1, 30)
    for _ in range(20):
        script.functions.clamp(rng.randrange(0, 40), rng.randrange(0, 40), rng.choice((0, rng.randrange(1, 40))))
    for case in ((number, number, number), (number, number - 1, number), (number, 0, 0)):
        script.functions.clamp(*case)
    return script.question()


def update_cases(rng: Random) -> JudgeQuestion:
    """Steps with one or several new tokens for each request, in an order different from the running list's."""
    script, max_model_len = Script(1), rng.randrange(6, 12)
    for _ in range(6):
        update_case(rng, script, max_model_len)
    return script.question()


def update_case(rng: Random, script: Script, max_model_len: int) -> None:
    """Six running requests: some of them planned, some with sampled tokens, some aborted meanwhile."""
    requests = []
    for number in range(6):
        stops = tuple(rng.sample(range(8), rng.randrange(4)))
        params = SamplingParams(max_tokens=rng.randrange(1, 6), stop_token_ids=stops, ignore_eos=rng.random() < 0.5)
        request = Request(f"r{number}", [9] * rng.randrange(1, 6), params, eos_token_ids=frozenset((1,)))
        request.status = RequestStatus.RUNNING
        requests.append(request)
    planned = [f"r{number}" for number in rng.sample(range(6), rng.randrange(3, 7))]
    sampled = {name: [rng.randrange(8) for _ in range(rng.randrange(0, 4))] for name in planned if rng.random() < 0.9}
    in_no_order = dict(rng.sample(list(sampled.items()), len(sampled)))
    aborted = rng.sample(range(6), rng.randrange(2))
    script.functions.update_from_output(
        SchedulerOutput(10, dict.fromkeys(planned, 1)),
        in_no_order,
        {request.request_id: request for number, request in enumerate(requests) if number not in aborted},
        list(requests),
        max_model_len=max_model_len,
        kv=Memory(4, []),
    )
