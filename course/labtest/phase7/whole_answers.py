"""A whole answer with random drafts and budgets, step by step: your two methods keep its counters between them."""

import random
from types import ModuleType

from course.labtest.expect import expect_equal
from course.labtest.phase7.counters import scheduling_of
from course.labtest.support import make_request
from course.views.text import counted


def answer_in_steps(phase7: ModuleType, rng: random.Random) -> None:
    """Generate an answer with random drafts and budgets; after each step the newest token alone is not computed."""
    scheduling = scheduling_of(phase7, 5)
    request = make_request("A", rng.randint(1, 9), num_computed_tokens=1, num_output_tokens=1)
    request.num_computed_tokens = request.num_prompt_tokens
    told: list[str] = []
    for step in range(12):
        request.spec_token_ids = [rng.randint(0, 9) for _ in range(rng.randint(0, 5))]
        given = list(request.spec_token_ids)
        budget = rng.choice([1, 2, 3, 100])
        request.num_computed_tokens += min(1 + len(given), budget)
        drafts = list(scheduling.schedule_drafts(request))
        num_sampled = rng.randint(1, 1 + min(len(given), budget - 1))
        if drafts:
            scheduling.roll_back(request, len(drafts), num_sampled)
        request.all_token_ids += range(7000, 7000 + num_sampled)
        told.append(
            f"step {step}: {counted(len(given), 'draft')}, budget {budget}, you scheduled {len(drafts)} of them; "
            f"{counted(num_sampled, 'token')} sampled"
        )
        expect_equal(
            {
                "drafts scheduled": len(drafts),
                "num_tokens - num_computed_tokens": request.num_tokens - int(request.num_computed_tokens),
            },
            {"drafts scheduled": min(len(given), budget - 1), "num_tokens - num_computed_tokens": 1},
            rule="Between two steps a decoding request is one token behind, however many drafts were right.",
            situation=told,
            hint="which tokens of the last step are in the text, and which counter still counts others?",
        )
