"""Questions to phase 8: placeholders in random orders, the last step, corrected shares."""

from random import Random
from typing import Any

from classroom.judge.questions.phase7 import a_state
from classroom.judge.questions.trial import MAX_CASES, Trial, trial
from mini_vllm.core.request import RequestStatus


def placeholder_orders(rng: Random) -> Trial:
    """Plans of prompt chunks, of decodes, of drafts that were cut; tokens that arrive late, and victims."""
    cases = []
    for _ in range(MAX_CASES):
        num_prompt, most = rng.randrange(1, 9), rng.choice((0, 0, 1, 3))
        cases.append((num_prompt, most, operations(rng, num_prompt, most)))
    return trial(8, "placeholders", cases)


def operations(rng: Random, num_known: int, most: int) -> list[tuple[str, int, int]]:
    """What happens to a request with a prompt, at most two steps in flight: see the driver's `apply_operation`."""
    done: list[tuple[str, int, int]] = []
    num_computed, in_flight, is_victim = 0, list[int](), False  # in flight: the most tokens that a step may bring
    for _ in range(rng.randrange(4, 16)):
        what = rng.choice(("plan", "plan", "plan", "arrive", "arrive", "preempt"))
        if what == "plan" and len(in_flight) < 2 and not (is_victim and in_flight):
            left = num_known + sum(in_flight) - num_computed
            num_drafts = rng.randrange(0, most + 1) if left == 1 and done else 0
            chunk = rng.choice((left, left, rng.randrange(1, left + 1)))
            done.append(("plan", chunk + num_drafts, num_drafts))
            num_computed, is_victim = num_computed + chunk + num_drafts, False
            in_flight += [1 + num_drafts] if chunk == left else []
        elif what == "arrive" and in_flight:
            most_tokens = in_flight.pop(0)
            number = rng.randrange(1, most_tokens + 1)
            done.append(("arrive", number, most_tokens - number))
            num_known += number
            num_computed -= 0 if is_victim else most_tokens - number
        elif what == "preempt" and num_computed and not is_victim and rng.random() < 0.5:
            done.append(("preempt", 0, 0))
            num_computed, is_victim = 0, True
    return done


def ends(rng: Random) -> Trial:
    """Requests near their `max_tokens`: a step in flight for them, with drafts or without, or none."""
    cases: list[Any] = []
    for _ in range(MAX_CASES):
        most = rng.choice((0, 2, 4))
        num_placeholders = rng.choice((0, 1, 1, 1 + most))
        num_prompt, num_output, *_ = a_state(rng, 0)
        known = num_prompt + num_output
        num_computed = known + num_placeholders - 1 if num_placeholders else rng.randrange(0, known)
        state = [num_prompt, num_output, num_computed, num_placeholders, [-1] * most, int(RequestStatus.RUNNING)]
        cases.append((state, max(1, num_output + rng.choice((1, 1, 2, 2, 3))), most))
    return trial(8, "last_steps", cases)


def stand_ins(rng: Random) -> Trial:
    """Two requests with stand-ins of their own, for several numbers of them."""
    return trial(8, "own_stand_ins", rng.sample(range(6), 4))


def corrections(rng: Random) -> Trial:
    """Shares with as many drafts as stand-ins, more, fewer and none, and with rejected drafts or without."""
    cases = []
    for _ in range(MAX_CASES):
        num_stand_ins = rng.randrange(0, 5)
        drafts = [rng.randrange(0, 9) for _ in range(rng.randrange(0, 6))]
        num_known, num_rejected = rng.choice((1, 1, 1, 4)), rng.choice((0, 0, 1, 2, 4))
        samples = num_stand_ins > 0 or rng.random() < 0.5
        cases.append((rng.randrange(5, 30), num_known + num_stand_ins, num_stand_ins, num_rejected, drafts, samples))
    return trial(8, "correct_share", cases)
