"""Draws random questions about `rejection_sample`. Imports torch."""

from random import Random

from mini_vllm_labs.classroom.judge.question import JudgeQuestion, question, short
from mini_vllm_labs.grading.labtest.phase7.rejections import LARGEST, random_case, surplus

NUM_REJECTIONS = 20
PARTS = 64  # random probabilities are multiples of 1 / PARTS
CELLS_PER_PART = 2


def rejections(rng: Random) -> JudgeQuestion:
    """Draw distributions over a few tokens, some of which have probability 0.

    No random number equals the limit for keeping a draft.
    """
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
        drafts = (list if len(case.drafts) % 2 else tuple)(case.drafts)  # any of the drafts in a share may be wrong
        cases.append((drafts, case.draft_probs, case.target_probs, keeps, last_row, grid))
    token_id, even = rng.randrange(1, 4), [0.25] * 4
    # the target's probability never exceeds the draft's
    less = [0.125 if token == token_id else 0.25 for token in range(4)]
    cases.append(([token_id], [even], [less, even], [0.75, 0.5], 0, CELLS_PER_PART * round(PARTS * sum(less))))
    # the target's probability exceeds the draft's by 12.5% and by 0.4%
    draft, target = [0.25, 0.25, 0.5], [0.375, 0.25390625, 0.37109375]
    cases.append(([2], [draft], [target, draft], [0.875, 0.5], 0, 264))
    cases.append(([2], [draft], [[0.25, 0.25390625, 0.49609375], draft], [0.9999, 0.5], 0, 8))
    for part in (2**-12, 2**-22):
        cases.append(([0], [[0.5 + part, 0.25, 0.25 - part]], [[0.5, 0.25, 0.25], draft], [LARGEST, 0.5], 0, 8))
    part = 2**-12  # an unlikely draft, which the target is a quarter as likely to choose
    unlikely, rarer = [part, 1 - part, 0.0], [part / 4, 1 - part / 4, 0.0]
    cases.append(([0], [unlikely], [rarer, draft], [0.2, 0.5], 1, CELLS_PER_PART * PARTS))
    cases.append(([0], [unlikely], [rarer, draft], [0.3, 0.5], 0, 8))
    two, last = [0.5, 0.5], [0.0] * 69_999 + [1.0]  # the twelfth draft is wrong, so only the last token can be drawn
    cases.append(([0] * 12, [two] * 12, [*[two] * 11, [0.0, 1.0], two], [0.5] * 13, 11, 2))
    cases.append(([0], [last[::-1]], [last, last], [0.5, 0.5], 0, 2))
    return question(7, "rejection_sample", cases, shown=[short(str(case)) for case in cases])
