"""Questions to phase 7: lookups, drafts in the schedule, slots, rows, acceptance, rejection sampling."""

from random import Random
from typing import Any

from classroom.judge.questions.trial import MAX_CASES, Trial, trial
from mini_vllm.core.request import RequestStatus

LIVING = (RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED)
NEAR_A_BORDER = 1e-6
UNITS = 20
CELLS_PER_UNIT = 2


def lookups(rng: Random) -> Trial:
    """Texts of few different tokens, so that there are matches of all lengths, and long ones without any."""
    cases = []
    for _ in range(MAX_CASES):
        vocabulary = rng.choice((2, 3, 5, 400))
        text = [rng.randrange(vocabulary) for _ in range(rng.choice((1, 2, 3, 8, 20, 60)))]
        shortest = rng.randrange(1, 4)
        cases.append((text, rng.randrange(1, 7), shortest, shortest + rng.randrange(0, 4)))
    return trial(7, "propose_by_lookup", cases)


def a_state(rng: Random, num_drafts: int, status: RequestStatus = RequestStatus.RUNNING) -> list[Any]:
    """A request's prompt, outputs, computed tokens, placeholders, drafts and status; the counters may lie anywhere."""
    num_prompt, num_output = rng.randrange(1, 12), rng.randrange(0, 8)
    num_placeholders = rng.choice((0, 0, 1, 2, 4))
    known = num_prompt + num_output + num_placeholders
    num_computed = rng.choice((known + num_drafts, known + rng.randrange(0, num_drafts + 1), rng.randrange(0, known)))
    drafts = [-1] * num_drafts if rng.random() < 0.2 else [rng.randrange(0, 9) for _ in range(num_drafts)]
    return [num_prompt, num_output, num_computed, num_placeholders, drafts, int(status)]


def schedules(rng: Random) -> Trial:
    """Requests whose drafts were scheduled whole, in part, or not at all."""
    cases = [(a_state(rng, rng.randrange(0, 6)), rng.randrange(1, 7), rng.random() < 0.3) for _ in range(MAX_CASES)]
    return trial(7, "schedule_drafts", cases)


def rollbacks(rng: Random) -> Trial:
    """Steps of which all drafts, some or none were right; some requests were preempted since."""
    cases = []
    for _ in range(MAX_CASES):
        num_drafts = rng.randrange(1, 6)
        state = a_state(rng, 0)
        state[2] = 0 if rng.random() < 0.25 else state[0] + state[1] + num_drafts
        state[3] = rng.choice((0, 1 + num_drafts, 2 * (1 + num_drafts)))
        state[5] = int(RequestStatus.PREEMPTED if state[2] == 0 else RequestStatus.RUNNING)
        cases.append((state, num_drafts, rng.randrange(1, num_drafts + 2)))
    return trial(7, "roll_back", cases)


def slots(rng: Random) -> Trial:
    """Drafters with and without a KV cache; requests of every status; hits of no block, one, and several."""
    cases = []
    for _ in range(MAX_CASES):
        hits = rng.sample(range(1, 50), rng.choice((0, 1, 2, 5)))
        state = a_state(rng, rng.randrange(0, 4), rng.choice(LIVING))
        cases.append((state, rng.randrange(1, 7), rng.random() < 0.6, hits))
    return trial(7, "drafter_slots", cases)


def rows(rng: Random) -> Trial:
    """Batches of prompt chunks, last chunks, decodes, and decodes with drafts."""
    cases = []
    for _ in range(MAX_CASES):
        batch = []
        for _ in range(rng.randrange(1, 7)):
            drafts = [rng.randrange(0, 9) for _ in range(rng.choice((0, 0, 1, 3)))]
            samples = bool(drafts) or rng.random() < 0.6
            batch.append((rng.randrange(0, 9), rng.randrange(1, 9) + len(drafts), drafts, samples))
        cases.append(batch)
    return trial(7, "logits_rows", cases)


def acceptances(rng: Random) -> Trial:
    """Drafts that are right up to a place, and perhaps right again behind it; token 0 among them."""
    cases = []
    for _ in range(MAX_CASES):
        sampled = [rng.randrange(0, 4) for _ in range(rng.randrange(1, 7))]
        drafts = list(sampled[:-1])
        for place in range(len(drafts)):
            if rng.random() < 0.3:
                drafts[place] = (drafts[place] + 1) % 4
        cases.append((drafts, sampled))
    return trial(7, "accept_drafts", cases)


def rejections(rng: Random) -> Trial:
    """Distributions over few tokens, some of them 0. Which drafts are kept is clear of every border."""
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
    return trial(7, "rejection_sample", cases)


def units(rng: Random, vocabulary: int) -> list[int]:
    """A distribution in twentieths."""
    chosen = rng.sample(range(vocabulary), rng.randrange(1, vocabulary + 1))
    drawn = [rng.choice(chosen) for _ in range(UNITS)]
    return [drawn.count(token_id) for token_id in range(vocabulary)]


def drawn_in(
    drafts: list[int], draft_units: list[list[int]], target_units: list[list[int]], keeps: list[float]
) -> tuple[int, int]:
    """Return the row that the last token is drawn in, and from how many units; none if rounding could decide."""
    for row, (token_id, draft, target) in enumerate(zip(drafts, draft_units, target_units, strict=False)):
        excess = keeps[row] * draft[token_id] - target[token_id]
        if keeps[row] and abs(excess) < NEAR_A_BORDER:
            return row, 0
        if excess >= 0:
            return row, sum(max(0, ours - theirs) for ours, theirs in zip(target, draft, strict=True))
    return len(drafts), UNITS
