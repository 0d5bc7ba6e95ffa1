"""Graded tests for task 6.5: temperature, top_k, top_p and the walk."""

import math
from types import ModuleType

import pytest
import torch

from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.phase6.sampling_checks import expect_tokens, logs, sampled
from mini_vllm_labs.grading.labtest.phase6.threads import one_thread as one_thread
from mini_vllm_labs.grading.labtest.whole_numbers import whole_numbers


def test_temperature_zero_takes_the_likeliest(phase6: ModuleType) -> None:
    logits = [[1.0, 3.0, 2.0, -1.0], [-5.0, -7.0, -4.0, -3.5], [8.9990, 9.0, 8.9999, 8.9998]]
    params = [SamplingParams(), SamplingParams(top_k=3), SamplingParams(top_p=0.5)]
    for draw in (0.0, 0.5, 0.999999):
        expect_equal(
            sampled(phase6, [(row, settings, draw) for row, settings in zip(logits, params, strict=True)]),
            [1, 3, 1],
            rule="At temperature 0 the likeliest token is chosen, whatever the draw and the filters.",
            situation=f"logits {logits}, all draws {draw}",
            hint="at temperature 0 nothing is drawn. Which token of the row has the highest logit?",
        )
    tied = sampled(phase6, [([1.0, 4.0, 0.0, 4.0], SamplingParams(), 0.7)])
    expect_equal(
        tied[0] in (1, 3),
        True,
        rule="At temperature 0 any of several equally likely tokens may be chosen, but no other.",
        situation=f"logits [1, 4, 0, 4]; yours chose token {tied[0]}",
        hint="which tokens have the highest logit?",
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # Token 2 has probability 0.5, token 0 has 0.3, token 3 has 0.15, and token 1 has 0.05.
        ({}, [0, 2, 2, 2, 3, 3]),  # running sums in order of token id: 0.3, 0.35, 0.85, 1
        ({"top_k": 1}, [2, 2, 2, 2, 2, 2]),
        ({"top_k": 2}, [2, 2, 2, 0, 0, 0]),  # 0.625 and 0.375
        ({"top_k": 3}, [2, 2, 0, 0, 3, 3]),
        ({"top_k": 99}, [2, 2, 0, 0, 3, 1]),
        ({"top_p": 0.001}, [2, 2, 2, 2, 2, 2]),
        ({"top_p": 0.45}, [2, 2, 2, 2, 2, 2]),
        ({"top_p": 0.6}, [2, 2, 2, 0, 0, 0]),  # 0.5 does not reach 0.6; the token that crosses it stays
        ({"top_p": 0.9}, [2, 2, 0, 0, 3, 3]),
        ({"top_p": 0.99}, [2, 2, 0, 0, 3, 1]),
        ({"top_k": 2, "top_p": 0.62}, [2, 2, 2, 2, 2, 2]),  # of these two tokens, token 2 has probability 0.625
        ({"top_k": 3, "top_p": 0.7}, [2, 2, 2, 0, 0, 0]),
    ],
    ids=str,
)
def test_draws_walk_through_what_is_kept(phase6: ModuleType, settings: dict[str, float], expected: list[int]) -> None:
    draws = [0.0, 0.45, 0.55, 0.77, 0.93, 0.999999]
    logits = logs(0.3, 0.05, 0.5, 0.15)
    params = SamplingParams(temperature=1.0, **settings)  # type: ignore[arg-type]
    expect_tokens(
        phase6,
        [(logits, params, draw) for draw in draws],
        expected,
        [f"draw {draw}" for draw in draws],
        rule="Apply top_k, then top_p, and scale to a sum of 1 each time. Walk until over the draw: from the likeliest "
        "token, or by token id in a row without top_k and top_p.",
        situation=f"probabilities {{2: 0.5, 0: 0.3, 3: 0.15, 1: 0.05}}, temperature 1, {settings or 'no filter'}",
        hint="which tokens are kept, what are their shares of what is kept, in which order does the walk meet them, "
        "and where does the draw fall?",
    )


def test_temperature_divides_the_logits(phase6: ModuleType) -> None:
    # Probabilities 0.6 and 0.4: temperature 0.5 squares them, giving 0.692 and 0.308; temperature 2 takes their square
    # roots, giving 0.551 and 0.449.
    rows = [(logs(0.6, 0.4), SamplingParams(temperature=t), d) for t in (0.5, 1.0, 2.0) for d in (0.57, 0.65)]
    expect_tokens(
        phase6,
        rows,
        [0, 0, 0, 1, 1, 1],
        [f"temperature {row[1].temperature}, draw {row[2]}" for row in rows],
        rule="Logits are divided by the temperature: below 1 the likeliest token becomes likelier.",
        situation="two tokens with probabilities 0.6 and 0.4 at temperature 1",
        hint="at the first temperature that differs: what becomes of the logits, which shares are that, and where does "
        "the draw fall?",
    )


def test_top_p_counts_at_the_rows_own_temperature(phase6: ModuleType) -> None:
    # 0.6, 0.3 and 0.1 become 0.783, 0.196 and 0.022 at temperature 0.5, so one token reaches 0.7.
    params = SamplingParams(temperature=0.5, top_p=0.7)
    expect_tokens(
        phase6,
        [(logs(0.6, 0.3, 0.1), params, 0.95)],
        [0],
        ["token"],
        rule="top_p uses the probabilities after the temperature.",
        situation="probabilities 0.6, 0.3, 0.1 at temperature 1; temperature 0.5, top_p 0.7, draw 0.95",
        hint="what are the three probabilities at temperature 0.5, and how many of them does it take to reach 0.7?",
    )


def test_a_probability_that_is_just_top_p_reaches_it(phase6: ModuleType) -> None:
    draws = [0.1, 0.9]
    params = SamplingParams(temperature=1.0, top_p=0.5)
    yours = sampled(phase6, [([0.0, -1000.0, 0.0], params, draw) for draw in draws])
    expect_equal(
        len(set(yours)),
        1,
        rule="top_p keeps the fewest tokens whose probabilities reach it; exactly top_p is enough.",
        situation=f"probabilities 0.5, 0, 0.5; top_p=0.5; draws {draws}; yours chose {yours}; counted: different ones",
        hint="how much of top_p is still missing after the first 0.5?",
    )


def test_every_draw_of_a_fair_die_has_its_token(phase6: ModuleType) -> None:
    draws = [0.0, 0.25, 0.5, 0.75]
    yours = sampled(phase6, [([0.0] * 4, SamplingParams(temperature=1.0), draw) for draw in draws])
    expect_equal(
        len(set(yours)),
        4,
        rule="The walk ends when the probabilities add up to more than the draw; an equal sum is not enough.",
        situation=f"four equal tokens, draws {draws}; yours chose {yours}; counted: different tokens",
        hint="the sums are 0.25, 0.5, 0.75 and 1. For each draw, which is the first sum that exceeds it?",
    )


def test_rows_have_their_own_settings_and_no_row_gives_no_token(phase6: ModuleType) -> None:
    logits = logs(0.3, 0.05, 0.5, 0.15)
    rows = [
        (logits, SamplingParams(temperature=1.0), 0.999999),
        (logits, SamplingParams(), 0.999999),
        (logits[::-1], SamplingParams(temperature=1.0, top_k=2), 0.8),
        (logits[::-1], SamplingParams(), 0.8),
        (logits, SamplingParams(temperature=1.0, top_p=0.6), 0.0),
        (logits, SamplingParams(temperature=1.0, top_k=4, top_p=0.99), 0.45),
        # 0.5 out of the 0.8 that top_k keeps
        (logits, SamplingParams(temperature=1.0, top_k=2, top_p=0.6), 0.9),
    ]
    expect_tokens(
        phase6,
        rows,
        [3, 2, 3, 1, 2, 2, 2],
        ["drawn", "greedy", "top_k=2", "greedy, other logits", "top_p=0.6", "top_k=4 top_p=0.99", "top_k=2 top_p=0.6"],
        rule="Each row is sampled with its own settings and its own draw.",
        situation=f"seven rows in one call, greedy ones between drawn ones; draws {[row[2] for row in rows]}",
        hint="which tokens do the settings of the first row that differs keep, and where does its draw fall?",
    )
    expect_equal(
        whole_numbers(phase6.sample(torch.zeros(0, 4), [], []), "sample"),
        [],
        rule="Without rows the result is [].",
        situation="logits of the shape [0, 4]: no request of the step needs a token",
        hint="which of your operations needs at least one row?",
    )


@pytest.mark.parametrize(
    "params", [{}, {"temperature": 0.5}, {"temperature": 1.0, "top_k": 3}, {"temperature": 2.0, "top_p": 0.9}]
)
def test_a_forbidden_token_never_comes(phase6: ModuleType, params: dict[str, float]) -> None:
    # min_tokens sets the logits of end tokens to -inf, which leaves two tokens with equal logits, or just one.
    draws, settings = [0.0, 0.4, 0.6, 0.99], SamplingParams(**params)  # type: ignore[arg-type]
    for logits, allowed in (
        ([-math.inf, 3.0, 3.0, -math.inf], {1, 2}),
        ([-math.inf, -math.inf, -80.0, -math.inf], {2}),
    ):
        yours = sampled(phase6, [(logits, settings, draw) for draw in draws])
        is_drawn = settings.temperature > 0
        expect_equal(
            {"tokens that are forbidden": sorted({*yours} - allowed), "different tokens": len({*yours})},
            {
                "tokens that are forbidden": [],
                "different tokens": len(allowed) if is_drawn else max(1, len({*yours} & allowed)),
            },
            rule="A logit of -inf means probability 0; min_tokens forbids the end of a text this way.",
            situation=f"logits {logits}, {params or 'greedy'}, draws {draws}; yours are {yours}",
            hint="does a logit of -inf give probability 0 in your code, more, or NaN?"
            + is_drawn * " Which token does draw 0.0 choose?"
            if {*yours} - allowed
            else "no forbidden token was drawn. Which probabilities do the others have, and where does each draw fall?",
        )


@pytest.mark.parametrize(
    ("params", "num_kept"), [({"top_k": 2}, 2), ({"top_k": 5}, 5), ({"top_p": 0.5}, 4), ({"top_p": 0.1}, 1)]
)
def test_of_equal_tokens_no_more_are_kept_than_asked_for(
    phase6: ModuleType, params: dict[str, float], num_kept: int
) -> None:
    settings = SamplingParams(temperature=1.0, **params)  # type: ignore[arg-type]
    draws = [(step + 0.5) / 40 for step in range(40)]
    yours = sampled(phase6, [([2.0] * 8, settings, draw) for draw in draws])
    expect_equal(
        len({*yours}),
        num_kept,
        rule="top_k keeps k tokens, and top_p the fewest that reach it, even if the next ones are equally likely.",
        situation=f"eight equal logits, {params}, 40 draws from 0.0125 to 0.9875; yours are the tokens "
        f"{sorted({*yours})}; counted: different tokens",
        hint=(
            "does your code count tokens, or compare logits with a limit that equal logits also reach?"
            if "top_k" in params
            else "how many of these tokens does your sum need to reach top_p, and do you keep one after that?"
        )
        if len({*yours}) > num_kept
        else "how many tokens does your code keep here, and which of the 40 draws choose each of them?",
    )


def test_a_large_vocabulary_is_sampled_to_its_end(phase6: ModuleType) -> None:
    # Three tokens with probabilities 0.5, 0.3 and 0.2, far apart in a vocabulary of 151,936.
    row = torch.full((151_936,), -90.0)
    for token, share in ((151_935, 0.5), (3, 0.3), (77_001, 0.2)):
        row[token] = math.log(share)
    logits = row.tolist()
    drawn, whole = SamplingParams(temperature=1.0, top_k=3), SamplingParams(temperature=1.0)
    expect_tokens(
        phase6,
        [(logits, drawn, 0.1), (logits, drawn, 0.6), (logits, drawn, 0.9), (logits, whole, 0.4), (logits, whole, 0.9)],
        [151_935, 3, 77_001, 77_001, 151_935],
        ["top_k=3, draw 0.1", "top_k=3, draw 0.6", "top_k=3, draw 0.9", "no cut, draw 0.4", "no cut, draw 0.9"],
        rule="Every token of the vocabulary can be sampled.",
        situation="151,936 logits: token 151,935 has probability 0.5, token 3 0.3, token 77,001 0.2",
        hint="which tokens are kept, in which order does the walk meet them, and what limits their number?",
    )


@pytest.mark.parametrize("temperature", [0.01, 0.05, 0.1, 0.25])
def test_a_low_temperature_still_draws(phase6: ModuleType, temperature: float) -> None:
    # At any temperature t, logits that differ by t * log(1.5) have probabilities 0.6 and 0.4.
    logits = [8.0, 8.0 - temperature * math.log(1.5)]
    draws = [0.3, 0.55, 0.65, 0.9]
    expect_tokens(
        phase6,
        [(logits, SamplingParams(temperature=temperature), draw) for draw in draws],
        [0, 0, 1, 1],
        [f"draw {draw}" for draw in draws],
        rule="Only temperature 0 is greedy; any other temperature divides the logits.",
        situation=f"temperature {temperature}; logits {logits}, which are probabilities 0.6 and 0.4; token by draw",
        hint="which operation uses the temperature, and for which temperatures does your code ignore the draw?",
    )
