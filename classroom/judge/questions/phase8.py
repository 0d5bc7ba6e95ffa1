"""Questions to phase 8: placeholders in random orders, the last step, corrected shares."""

from random import Random
from typing import Any

from classroom.judge.question import MAX_CASES, JudgeQuestion, question
from classroom.judge.questions.phase7 import a_request
from classroom.judge.script import Script
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.sampling_params import SamplingParams


def placeholder_orders(rng: Random) -> JudgeQuestion:
    """Plans of prompt chunks, of decodes, of drafts that were cut; tokens that arrive late, and victims."""
    script = Script(8)
    schedulings = {most: script.new("PlaceholderScheduling", most) for most in (0, 1, 3)}
    for _ in range(MAX_CASES // 2):
        most = rng.choice((0, 0, 1, 3))
        a_life(rng, schedulings[most], Request("r", [7] * rng.randrange(1, 9)), most)
    return script.question()


def a_life(rng: Random, scheduling: Any, request: Request, most: int) -> None:
    """Plan, finish and preempt a request as the scheduler would, with at most two steps in flight."""
    in_flight, is_victim = list[int](), False  # in flight: how many tokens each step can bring at most
    for turn in range(rng.randrange(4, 16)):
        what = rng.choice(("plan", "plan", "plan", "arrive", "arrive", "preempt"))
        if what == "plan" and len(in_flight) < 2 and not (is_victim and in_flight):
            left = request.num_tokens + sum(in_flight) - request.num_computed_tokens
            num_drafts = rng.randrange(0, most + 1) if left == 1 and turn else 0
            chunk = rng.choice((left, left, rng.randrange(1, left + 1)))
            # The counter has advanced and the drafts were taken before phase 8 is asked.
            request.status, request.spec_token_ids, is_victim = RequestStatus.RUNNING, [], False
            request.num_computed_tokens += chunk + num_drafts
            scheduling.take_placeholders(request, num_drafts)
            in_flight += [1 + num_drafts] if chunk == left else []
        elif what == "arrive" and in_flight:
            most_tokens = in_flight.pop(0)
            number = rng.randrange(1, most_tokens + 1)
            request.num_computed_tokens -= most_tokens - number if request.num_computed_tokens else 0
            request.num_output_placeholders -= most_tokens - number
            request.all_token_ids.extend([9] * number)
            scheduling.fill_placeholders(request, number)
        elif what == "preempt" and request.num_computed_tokens and not is_victim and rng.random() < 0.5:
            request.preempt()
            is_victim = True


def ends(rng: Random) -> JudgeQuestion:
    """Requests near their `max_tokens`: a step in flight for them, with drafts or without, or none."""
    script = Script(8)
    for _ in range(MAX_CASES):
        most, request = rng.choice((0, 2, 4)), a_request(rng, 0)
        num_placeholders = rng.choice((0, 1, 1, 1 + most))
        request.num_output_placeholders, request.spec_token_ids = num_placeholders, [-1] * most
        request.num_computed_tokens = rng.randrange(0, request.num_tokens)
        if num_placeholders:
            request.num_computed_tokens = request.num_tokens + num_placeholders - 1
        max_tokens = max(1, request.num_output_tokens + rng.choice((1, 1, 2, 2, 3)))
        request.sampling_params = SamplingParams(max_tokens=max_tokens)
        script.new("PlaceholderScheduling", most).is_surely_over(request)
    return script.question()


def stand_ins(rng: Random) -> JudgeQuestion:
    """Two requests with stand-ins of their own, for several numbers of them."""
    numbers = rng.sample(range(6), 4)
    return question(8, "own_stand_ins", numbers, shown=[f"{number} stand-ins each" for number in numbers])


def corrections(rng: Random) -> JudgeQuestion:
    """Shares with as many drafts as stand-ins, more, fewer and none, and with rejected drafts or without."""
    script = Script(8)
    for _ in range(MAX_CASES):
        num_stand_ins, computed = rng.randrange(0, 5), rng.randrange(5, 30)
        drafts = [rng.randrange(0, 9) for _ in range(rng.randrange(0, 6))]
        num_known, num_rejected = rng.choice((1, 1, 1, 4)), rng.choice((0, 0, 1, 2, 4))
        samples, num_scheduled = num_stand_ins > 0 or rng.random() < 0.5, num_known + num_stand_ins
        request = a_request(rng, 0)
        request.num_computed_tokens = computed + num_scheduled
        planned = ScheduledRequest(request, computed, num_scheduled, [3, 1], samples, [-1] * num_stand_ins)
        script.functions.correct_share(planned, num_rejected, drafts)
    return script.question()
