"""Rows of logits for the graded tests of `sample`, the checked call, and a slow sampler that follows the docstring."""

import math
import random
from collections.abc import Sequence
from copy import copy
from itertools import accumulate
from types import ModuleType
from typing import Unpack

import torch

from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.labtest.crash_hints import CrashHint, learners_call
from mini_vllm_labs.grading.labtest.expect import Told, expect_equal
from mini_vllm_labs.grading.labtest.whole_numbers import whole_numbers
from mini_vllm_labs.grading.plays.moments import told_of_memory

SMALLEST_SUM = 1e-12
CLOSE = 1e-4
Row = tuple[Sequence[float], SamplingParams, float]

CRASH_HINTS = (
    CrashHint(
        RuntimeError, "`top_k` may be larger than the vocabulary. How many tokens are kept then?", word="k out of range"
    ),
    CrashHint(
        (IndexError, RuntimeError),
        "which index has no entry: that of a row, of a token, or of a walk in which no sum exceeds the draw?",
        word="out of",
    ),
)


def sampled(phase6: ModuleType, rows: Sequence[Row], dtype: torch.dtype = torch.float32) -> list[int]:
    """Return the tokens that you sample for rows of logits; require one id per row and unchanged arguments."""
    logits = torch.tensor([list(row[0]) for row in rows]).to(dtype)
    params, draws, before = [row[1] for row in rows], [row[2] for row in rows], logits.clone()
    situation, first = f"{len(rows)} rows of {logits.shape[1]} logits", rows[0][1]
    settings = f"the first row: temperature={first.temperature}, top_p={first.top_p}, top_k={first.top_k}"
    with learners_call([f"{situation}; {settings}"], CRASH_HINTS):
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
        hint="logits are [S, vocab]. Along which of the two dimensions does each of your operations go?"
        if len(tokens) != len(rows)
        else "what is this number in your code: a token's id, a place in a sorted row, or the end of a walk?",
    )
    names = ("logits", "params", "draws")
    same = (torch.equal(logits, before), params == [row[1] for row in rows], draws == [row[2] for row in rows])
    expect_equal(
        [name for name, is_same in zip(names, same, strict=True) if not is_same],
        [],
        rule="sample only reads its arguments: the engine reads the logits again for logprobs and drafts.",
        situation=f"{situation}; {settings}\ncompared: which arguments were changed",
        hint="which of your operations works in place (`/=`, `masked_fill_`, `logits[...] =`, a list's methods)?",
    )
    return tokens


def expect_tokens(
    phase6: ModuleType, rows: Sequence[Row], expected: Sequence[int], names: Sequence[object], **told: Unpack[Told]
) -> None:
    yours = sampled(phase6, rows)
    wrong = [index for index, token in enumerate(yours) if token != expected[index]]
    if wrong:
        told = told_of_row(phase6, rows, wrong[0], expected[wrong[0]], told)
    expect_equal(dict(zip(names, yours, strict=True)), dict(zip(names, expected, strict=True)), **told)


def told_of_row(phase6: ModuleType, rows: Sequence[Row], wrong: int, right: int, told: Told) -> Told:
    """Build the report on a wrong row, and mention whether it is right if sampled alone or a second time."""
    # the last copies have new addresses
    copies = [[copy(row[1]) for row in rows] for _ in range(1000 // len(rows) + 1)]
    again = [(list(row[0]), params, row[2]) for row, params in zip(rows, copies[-1], strict=True)]
    what = f"the row with draw {rows[wrong][2]:.6g} in a call of its own, with equal settings"
    alone = told_of_memory(told, lambda: sampled(phase6, [again[wrong]]), [right], what)
    if alone is told or told_of_memory(told, lambda: sampled(phase6, again)[wrong], right, "") is not told:
        return alone
    hint = "other rows change this row's answer. Which number, index or tensor in your code belongs to a different row?"
    return {**alone, "rule": "Each row is sampled with its own settings and its own draw.", "hint": hint}


def logs(*probabilities: float) -> list[float]:
    return [math.log(probability) for probability in probabilities]


def scaled(probabilities: Sequence[float]) -> list[float]:
    """Return the probabilities scaled to add up to 1."""
    total = math.fsum(probabilities)
    return [probability / total for probability in probabilities]


def naive_sample(logits: Sequence[float], params: SamplingParams, draw: float) -> int | None:
    """Return the token, or None if the token depends on rounding, so that no test may expect a particular one."""
    ranked = sorted(range(len(logits)), key=lambda token: -logits[token])
    if params.temperature == 0:
        return ranked[0]
    if not params.top_k and params.top_p == 1:
        ranked.sort()
    highest = max(logits)
    probabilities = scaled([math.exp((logits[token] - highest) / params.temperature) for token in ranked])
    if params.top_k > 0:
        probabilities = scaled(probabilities[: params.top_k])
    sums = list(accumulate(probabilities))
    if params.top_p < 1:
        if any(abs(reached - params.top_p) < CLOSE for reached in sums):
            return None
        sums = sums[: sum(reached < params.top_p for reached in sums) + 1]
    sums = [reached / sums[-1] for reached in sums]
    for token, reached in zip(ranked, sums[:-1], strict=False):
        # 0 is less than every sum, unless the sum is so small that a formula such as 1 minus the rest rounds it to 0.
        if abs(reached - draw) < CLOSE if draw > 0 else 0 < reached < SMALLEST_SUM:
            return None
        if reached > draw:
            return token
    return ranked[len(sums) - 1]


def random_row(rng: random.Random, vocab_size: int) -> tuple[list[float], SamplingParams, float]:
    """Draw logits, settings and a random number. The tokens that `min_tokens` forbids have logits of -inf."""
    spread = rng.choice([2, 2, 2, 500])  # with 500, exp(logit) is not finite
    logits = [rng.gauss(0, spread) for _ in range(vocab_size)]
    for token in rng.sample(range(vocab_size), rng.choice([0, 0, 1, vocab_size // 2, vocab_size - 1])):
        logits[token] = -math.inf
    params = SamplingParams(
        temperature=rng.choice([0.0, 0.01, 0.1, 0.2, 0.3, 0.7, 1.0, 1.7]),
        top_k=rng.choice([0, 0, 1, 2, 3, 5, vocab_size, vocab_size + 5]),
        top_p=rng.choice([1.0, 1.0, 0.001, rng.uniform(0.05, 0.99)]),
    )
    return logits, params, rng.choice([0.0, 0.9999, rng.random(), rng.random(), rng.random()])
