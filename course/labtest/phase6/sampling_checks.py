"""Rows of logits for the graded tests of `sample`, and the checked call."""

import math
from collections.abc import Sequence
from types import ModuleType

import torch

from course.labtest.crash_hints import CrashHint, learners_call
from course.labtest.expect import expect_equal
from course.labtest.phase6.whole_numbers import whole_numbers
from mini_vllm.sampling_params import SamplingParams

Row = tuple[Sequence[float], SamplingParams, float]

CRASH_HINTS = (
    CrashHint(
        RuntimeError,
        "`top_k` may be larger than the vocabulary: how many tokens are kept then?",
        word="k out of range",
    ),
    CrashHint(IndexError, "which token does your walk choose if rounding leaves all sums below the draw?"),
)


def sampled(phase6: ModuleType, rows: Sequence[Row], dtype: torch.dtype = torch.float32) -> list[int]:
    """Return your tokens for rows of logits, settings and draws: one token id per row, and the arguments unchanged."""
    logits = torch.tensor([list(row[0]) for row in rows]).to(dtype)
    params, draws = [row[1] for row in rows], [row[2] for row in rows]
    situation = f"{len(rows)} rows of {logits.shape[1]} logits"
    with learners_call([f"{situation}; the settings of the first row: {params[0]}"], CRASH_HINTS):
        answer = phase6.sample(logits, params, draws)
    tokens = whole_numbers(answer, "sample")
    expect_equal(
        {
            "number of tokens": len(tokens),
            "ids that no token has": [token for token in tokens if not 0 <= token < logits.shape[1]],
        },
        {"number of tokens": len(rows), "ids that no token has": []},
        rule="sample returns one token id for each row, at least 0 and less than the size of the vocabulary.",
        situation=f"{situation}; yours are {tokens[:12]}",
        hint="logits are [S, vocab]: along which of the two dimensions does each of your operations go?",
    )
    expect_equal(
        {"params": params, "draws": draws},
        {"params": [row[1] for row in rows], "draws": [row[2] for row in rows]},
        rule="sample only reads the settings and the draws.",
        situation=situation,
        hint="which of your operations changes a list in place?",
    )
    return tokens


def logs(*probabilities: float) -> list[float]:
    return [math.log(probability) for probability in probabilities]
