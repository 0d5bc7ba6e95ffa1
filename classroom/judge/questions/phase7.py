"""Questions to phase 7: lookups, drafts in the schedule, slots, rows, acceptance, rejection sampling."""

from random import Random
from typing import Any

from classroom.judge.question import MAX_CASES, JudgeQuestion, question
from classroom.judge.script import Script
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest

LIVING = (RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED)
NEAR_A_BORDER = 1e-6
UNITS = 20
CELLS_PER_UNIT = 2


def lookups(rng: Random) -> JudgeQuestion:
    """Texts of few different tokens, so that there are matches of all lengths, and long ones without any."""
    script = Script(7)
    for _ in range(MAX_CASES):
        vocabulary = rng.choice((2, 3, 5, 400))
        text = [rng.randrange(vocabulary) for _ in range(rng.choice((1, 2, 3, 8, 20, 60)))]
        shortest = rng.randrange(1, 4)
        script.functions.propose_by_lookup(text, rng.randrange(1, 7), shortest, shortest + rng.randrange(0, 4))
    return script.question()


def a_request(rng: Random, num_drafts: int) -> Request:
    """A running request with outputs, placeholders and drafts; its counter may lie anywhere."""
    request = Request("r", [7] * rng.randrange(1, 12))
    request.status = RequestStatus.RUNNING
    request.all_token_ids.extend([8] * rng.randrange(0, 8))
    request.num_output_placeholders = rng.choice((0, 0, 1, 2, 4))
    known = request.num_tokens + request.num_output_placeholders
    request.num_computed_tokens = rng.choice(
        (known + num_drafts, known + rng.randrange(0, num_drafts + 1), rng.randrange(0, known))
    )
    request.spec_token_ids = [-1] * num_drafts if rng.random() < 0.2 else [rng.randrange(9) for _ in range(num_drafts)]
    return request


def schedules(rng: Random) -> JudgeQuestion:
    """Requests whose drafts were scheduled whole, in part, or not at all."""
    script = Script(7)
    for _ in range(MAX_CASES):
        speculation = script.new("SpeculativeScheduling", rng.randrange(1, 7), rng.random() < 0.3)
        speculation.schedule_drafts(a_request(rng, rng.randrange(0, 6)))
    return script.question()


def rollbacks(rng: Random) -> JudgeQuestion:
    """Steps of which all drafts, some or none were right; some requests were preempted since."""
    script = Script(7)
    speculation = script.new("SpeculativeScheduling", 8, False)
    for _ in range(MAX_CASES):
        num_drafts, request = rng.randrange(1, 6), a_request(rng, 0)
        is_victim = rng.random() < 0.25
        request.num_computed_tokens = 0 if is_victim else request.num_tokens + num_drafts
        request.num_output_placeholders = rng.choice((0, 1 + num_drafts, 2 * (1 + num_drafts)))
        request.status = RequestStatus.PREEMPTED if is_victim else RequestStatus.RUNNING
        speculation.roll_back(request, num_drafts, rng.randrange(1, num_drafts + 2))
    return script.question()


def slots(rng: Random) -> JudgeQuestion:
    """Drafters with and without a KV cache; requests of every status; hits of no block, one, and several."""
    script = Script(7)
    for _ in range(MAX_CASES):
        hits, request = rng.sample(range(1, 50), rng.choice((0, 1, 2, 5))), a_request(rng, rng.randrange(0, 4))
        request.status = rng.choice(LIVING)
        speculation = script.new("SpeculativeScheduling", rng.randrange(1, 7), rng.random() < 0.6)
        speculation.num_lookahead_tokens(request)
        speculation.usable_hit_blocks(hits)
    return script.question()


def rows(rng: Random) -> JudgeQuestion:
    """Batches of prompt chunks, last chunks, decodes, and decodes with drafts."""
    script, request = Script(7), Request("r", [7] * 50)
    for _ in range(MAX_CASES):
        batch = []
        for _ in range(rng.randrange(1, 7)):
            drafts = [rng.randrange(0, 9) for _ in range(rng.choice((0, 0, 1, 3)))]
            samples, num_scheduled = bool(drafts) or rng.random() < 0.6, rng.randrange(1, 9) + len(drafts)
            batch.append(ScheduledRequest(request, rng.randrange(0, 9), num_scheduled, [1], samples, drafts))
        script.functions.select_logits_rows(batch)
    return script.question()


def acceptances(rng: Random) -> JudgeQuestion:
    """Drafts that are right up to some position, and sometimes right again after it; token 0 among them."""
    script = Script(7)
    for _ in range(MAX_CASES):
        sampled = [rng.randrange(0, 4) for _ in range(rng.randrange(1, 7))]
        drafts = list(sampled[:-1])
        for place in range(len(drafts)):
            if rng.random() < 0.3:
                drafts[place] = (drafts[place] + 1) % 4
        script.functions.accept_drafts(drafts, sampled)
    return script.question()


def rejections(rng: Random) -> JudgeQuestion:
    """Distributions over few tokens, some of probability 0. No draw is close to the limit of keeping a draft."""
    cases: list[Any] = []
    while len(cases) < MAX_CASES // 3:
        vocabulary, num_drafts = rng.randrange(2, 6), rng.randrange(0, 4)
        draft_units = [units(rng, vocabulary) for _ in range(num_drafts)]
        target_units = [units(rng, vocabulary) for _ in range(num_drafts + 1)]
        drafts = [rng.choices(range(vocabulary), weights)[0] for weights in draft_units]
        keeps = [rng.choice((0.0, rng.random(), rng.random())) for _ in range(num_drafts + 1)]
        last_row, num_left = drawn_in(drafts, draft_units, target_units, keeps)
        if num_left:
            draft_probs, target_probs = (
                [[unit / UNITS for unit in row] for row in rows] for rows in (draft_units, target_units)
            )
            cases.append((drafts, draft_probs, target_probs, keeps, last_row, CELLS_PER_UNIT * num_left))
    return question(7, "rejection_sample", cases, shown=list(map(str, cases)))


def units(rng: Random, vocabulary: int) -> list[int]:
    """A distribution in twentieths."""
    chosen = rng.sample(range(vocabulary), rng.randrange(1, vocabulary + 1))
    drawn = [rng.choice(chosen) for _ in range(UNITS)]
    return [drawn.count(token_id) for token_id in range(vocabulary)]


def drawn_in(
    drafts: list[int], draft_units: list[list[int]], target_units: list[list[int]], keeps: list[float]
) -> tuple[int, int]:
    """Return the row that the last token is drawn from, and from how many units; 0 if rounding could decide."""
    for row, (token_id, draft, target) in enumerate(zip(drafts, draft_units, target_units, strict=False)):
        excess = keeps[row] * draft[token_id] - target[token_id]
        if keeps[row] and abs(excess) < NEAR_A_BORDER:
            return row, 0
        if excess >= 0:
            return row, sum(max(0, ours - theirs) for ours, theirs in zip(target, draft, strict=True))
    return len(drafts), UNITS
