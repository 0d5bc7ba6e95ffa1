"""Questions to the electives, phases 7 to 13, and the tables of all phases that have one."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.classroom.judge.planned_ahead import random_answers
from mini_vllm_labs.classroom.judge.question import MAX_CASES, JudgeQuestion, question, short
from mini_vllm_labs.classroom.judge.script import Script, reference
from mini_vllm_labs.grading.labtest import (
    phase1_plays,
    phase2_plays,
    phase3_plays,
    phase4_plays,
    phase5_plays,
    phase6_plays,
    phase9_plays,
    phase10_plays,
    phase11_plays,
    phase12_plays,
    phase13_plays,
)
from mini_vllm_labs.grading.labtest.case_table import groups
from mini_vllm_labs.grading.labtest.moments import Living
from mini_vllm_labs.grading.labtest.phase7.counters import random_drafted
from mini_vllm_labs.grading.labtest.phase7.lookups import random_lookup
from mini_vllm_labs.grading.labtest.phase7.rows import random_batch

LIVING = (RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED)
NUM_REJECTIONS = 20
PARTS = 64  # the random distributions have probabilities in such parts
CELLS_PER_PART = 2
PLAYS: dict[int, ModuleType] = {
    1: phase1_plays,
    2: phase2_plays,
    3: phase3_plays,
    4: phase4_plays,
    5: phase5_plays,
    6: phase6_plays,
    9: phase9_plays,
    10: phase10_plays,
    11: phase11_plays,
    12: phase12_plays,
    13: phase13_plays,
}


def lookups(rng: Random) -> JudgeQuestion:
    """Texts of few different tokens, so that there are matches of all lengths, and long ones without any."""
    script = Script(7)
    for _ in range(MAX_CASES):
        case = random_lookup(rng)
        script.functions.propose_by_lookup(list(case.tokens), case.num_drafts, case.shortest, case.longest)
        alike = [rng.choice((5, 5 + 2**8, 5 + 2**16)) for _ in case.tokens]  # in their last bytes
        script.functions.propose_by_lookup(alike, case.num_drafts, 1, case.longest)
    script.functions.propose_by_lookup([rng.randrange(400) for _ in range(60)], 4, 1, 3)
    script.functions.propose_by_lookup([5, 6, 7, 8, *range(100, 9_000), 5, 6, 7], 3, 2, 3)
    return script.question()


def schedules(rng: Random) -> JudgeQuestion:
    """Requests that live on, and whose drafts were scheduled whole, in part, or not at all."""
    script, living = Script(7), Living(rng)
    objects = [script.functions.SpeculativeScheduling(number, rng.random() < 0.3) for number in range(1, 4)]
    for _ in range(MAX_CASES):
        rng.choice(objects).schedule_drafts(living.now(random_drafted(rng)))
    return script.question()


def rollbacks(rng: Random) -> JudgeQuestion:
    """Steps of which all drafts, some or none were right; some were planned ahead, some requests preempted since."""
    script, living = Script(7), Living(rng)
    speculation = script.functions.SpeculativeScheduling(8, False)
    for _ in range(MAX_CASES):
        num_drafts, request = rng.choice((*range(1, 6), 12)), living.now(random_drafted(rng))
        is_victim = rng.random() < 0.25
        if rng.random() < 0.5:
            speculation.schedule_drafts(request)
        request.spec_token_ids = []
        request.num_computed_tokens = 0 if is_victim else request.num_tokens + num_drafts + rng.choice((0, 0, 2))
        request.num_output_placeholders = rng.choice((0, 1 + num_drafts, 2 * (1 + num_drafts)))
        request.status = RequestStatus.PREEMPTED if is_victim else RequestStatus.RUNNING
        speculation.roll_back(request, num_drafts, rng.randrange(1, num_drafts + 2))
    return script.question()


def slots(rng: Random) -> JudgeQuestion:
    """Drafters with and without a KV cache; requests of every status; hits of no block, one, several, and many."""
    script, living = Script(7), Living(rng)
    objects = [script.functions.SpeculativeScheduling(rng.randrange(1, 7), number % 2 > 0) for number in range(4)]
    for _ in range(MAX_CASES):
        hits, request = rng.sample(range(1, 500), rng.choice((0, 1, 2, 5, 300))), living.now(random_drafted(rng))
        request.status = rng.choice(LIVING)
        speculation = rng.choice(objects)
        speculation.num_lookahead_tokens(request)
        speculation.usable_hit_blocks(hits)
    return script.question()


def rows(rng: Random) -> JudgeQuestion:
    """Batches of prompt chunks, last chunks, decodes, and decodes with drafts."""
    script = Script(7)
    for _ in range(MAX_CASES):
        script.functions.select_logits_rows(random_batch(rng))
    return script.question()


def acceptances(rng: Random) -> JudgeQuestion:
    """Drafts that are right up to some position, sometimes right again after it; token 0, stand-ins and long ones."""
    script = Script(7)
    for _ in range(MAX_CASES):
        tokens = rng.choice((range(4), range(1000, 1004), (5, 5 + 2**8, 5 + 2**16, 5 + 2**31)))
        sampled = [rng.choice(tokens) for _ in range(rng.choice((rng.randrange(1, 7), 40)))]
        wrong = rng.choice((0.0, 0.3))
        drafts = [rng.choice((*tokens, -1)) if rng.random() < wrong else token_id for token_id in sampled[:-1]]
        script.functions.accept_drafts(drafts, sampled)
    return script.question()


def rejections(rng: Random) -> JudgeQuestion:
    """Distributions over few tokens, some of probability 0. No draw is at the limit of keeping a draft."""
    from mini_vllm_labs.grading.labtest.phase7.rejections import LARGEST, random_case, surplus

    cases = []
    for _ in range(NUM_REJECTIONS):
        case = random_case(rng, rng.choice((0, 1, 2, 3, 3, 12)))
        keeps = [keep for keep, _ in case.draws]
        last_row, weights = len(case.drafts), list(case.target_probs[-1])
        for row, (token_id, draft) in enumerate(zip(case.drafts, case.draft_probs, strict=True)):
            if keeps[row] * draft[token_id] >= case.target_probs[row][token_id]:
                last_row, weights = row, surplus(case.target_probs[row], draft)
                break
        grid = CELLS_PER_PART * round(PARTS * sum(weights))
        drafts = (list if len(case.drafts) % 2 else tuple)(case.drafts)  # a share's drafts may be either
        cases.append((drafts, case.draft_probs, case.target_probs, keeps, last_row, grid))
    token_id, even = rng.randrange(1, 4), [0.25] * 4
    less = [
        0.125 if token == token_id else 0.25 for token in range(4)
    ]  # rounding left nothing that the target has more
    cases.append(([token_id], [even], [less, even], [0.75, 0.5], 0, CELLS_PER_PART * round(PARTS * sum(less))))
    draft, target = [0.25, 0.25, 0.5], [0.375, 0.25390625, 0.37109375]  # a surplus of 12.5% and one of 0.4%
    cases.append(([2], [draft], [target, draft], [0.875, 0.5], 0, 264))
    cases.append(([2], [draft], [[0.25, 0.25390625, 0.49609375], draft], [0.9999, 0.5], 0, 8))
    for part in (2**-12, 2**-22):
        cases.append(([0], [[0.5 + part, 0.25, 0.25 - part]], [[0.5, 0.25, 0.25], draft], [LARGEST, 0.5], 0, 8))
    two, last = [0.5, 0.5], [0.0] * 69_999 + [1.0]  # the twelfth draft is wrong; only the last token can be drawn
    cases.append(([0] * 12, [two] * 12, [*[two] * 11, [0.0, 1.0], two], [0.5] * 13, 11, 2))
    cases.append(([0], [last[::-1]], [last, last], [0.5, 0.5], 0, 2))
    return question(7, "rejection_sample", cases, shown=[short(str(case)) for case in cases])


def placeholder_orders(rng: Random) -> JudgeQuestion:
    """Plans of prompt chunks, of decodes, of drafts that were cut; tokens that arrive late, and victims."""
    script, living = Script(8, only=("take_placeholders", "fill_placeholders")), Living(rng)
    objects = {most: script.functions.PlaceholderScheduling(most) for most in (0, 3, 1, 16)}
    for most, scheduling in objects.items():
        random_answers(scheduling, most, rng)
    for _ in range(MAX_CASES):  # of requests that live on, at moments in any order: ends of their texts, and chunks
        most, request = rng.choice([*objects]), living.now(random_drafted(rng))
        scheduling, num_drafts = objects[most], rng.randrange(most + 1)
        request.num_computed_tokens = request.num_tokens + request.num_output_placeholders + num_drafts
        if rng.random() < 0.25:
            request.num_output_placeholders = num_drafts = 0
            request.num_computed_tokens = rng.randrange(request.num_tokens)
        scheduling.take_placeholders(request, num_drafts)
        scheduling.fill_placeholders(request, rng.randrange(request.num_output_placeholders + 1))
    return script.question()


def ends(rng: Random) -> JudgeQuestion:
    """Requests near their `max_tokens`: a step in flight for them, with drafts or without, or none."""
    script, living = Script(8), Living(rng)
    objects = {most: script.functions.PlaceholderScheduling(most) for most in (0, 2, 4)}
    for _ in range(MAX_CASES):
        most, request = rng.choice((0, 2, 4)), living.now(random_drafted(rng))
        request.all_token_ids += [7] * rng.choice((*[0] * 12, *[300] * 3, 3_000))
        num_placeholders = rng.choice((0, 1, 1, 1 + most))
        request.num_output_placeholders, request.spec_token_ids = num_placeholders, [-1] * most
        request.num_computed_tokens = rng.randrange(0, request.num_tokens)
        if num_placeholders:
            request.num_computed_tokens = request.num_tokens + num_placeholders - 1
        max_tokens = max(1, request.num_output_tokens + rng.choice((1, 1, 2, 2, 3)))
        request.sampling_params = SamplingParams(max_tokens=max_tokens)
        objects[most].is_surely_over(request)
    return script.question()


def stand_ins(rng: Random) -> JudgeQuestion:
    """Two requests with stand-ins of their own, for several numbers of them."""
    numbers = rng.sample(range(6), 4)
    return question(8, "own_stand_ins", numbers, shown=[f"{number} stand-ins each" for number in numbers])


def corrections(rng: Random) -> JudgeQuestion:
    """Shares with as many drafts as stand-ins, more, fewer and none, and with rejected drafts or without."""
    script, living = Script(8), Living(rng)
    for _ in range(MAX_CASES):
        num_stand_ins, computed = rng.choice((20, *range(5))), rng.randrange(5, 30)
        drafts = [rng.randrange(0, 9) for _ in range(rng.choice((20, *range(6))))]
        num_known, num_rejected = rng.choice((1, 1, 1, 4)), rng.choice((0, 0, 1, 2, 4))
        samples, num_scheduled = num_stand_ins > 0 or rng.random() < 0.5, num_known + num_stand_ins
        request = living.now(random_drafted(rng))
        request.num_computed_tokens = computed + num_scheduled + rng.choice((0, 0, 3))  # the next step is planned, too
        stand_ins, tables = [-1] * num_stand_ins, rng.choice(((), ([3, 1], [8, 2])))
        planned = ScheduledRequest(request, computed, num_scheduled, [3, 1], samples, stand_ins, None, tables)
        script.functions.correct_share(planned, num_rejected, drafts)
    return script.question()


def table(rng: Random, phase: int, task: int, also: int | None = None) -> JudgeQuestion:
    """Random cases of a task of a phase with plays, among the named ones of its graded tests, which vary all else.

    `also` is another task of the same group.
    """
    cases: list[tuple[str, Sequence[Any]]] = []
    for one in filter(None, (task, also)):
        told = groups(PLAYS[phase], one)
        cases += [(group["play"], given) for group in told for given in group["cases"].values()]
        cases += [(told[0]["play"], PLAYS[phase].random_case(rng, one)) for _ in range(MAX_CASES)]
    rng.shuffle(cases)
    shown = [short(f"{play}{tuple(given)}") for play, given in cases]
    if phase == 5:
        cases = [(play, (*given, clamp_choices())) for play, given in cases]
    return question(phase, "table", phase, cases, shown=shown)


@cache
def clamp_choices() -> phase5_plays.Choices:
    """Return phase 1's `clamp` as data, by the order of 0 and its arguments: its code is not in the jail."""
    given = [(0, *numbers) for numbers in product(range(-3, 4), repeat=3)]
    return {phase5_plays.order_of(one): one.index(reference(1).clamp(*one[1:])) for one in given}
