"""Graded tests for task 6.5: dtypes, devices, rounding, large vocabularies and random rows."""

import math
import random
from types import ModuleType

import pytest
import torch

from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.labtest.expect import Told, expect_equal
from mini_vllm_labs.grading.labtest.phase6.devices import call_on_a_device
from mini_vllm_labs.grading.labtest.phase6.sampling_checks import (
    Row,
    expect_tokens,
    logs,
    naive_sample,
    random_row,
    sampled,
    told_of_row,
)
from mini_vllm_labs.grading.labtest.phase6.threads import one_thread as one_thread
from mini_vllm_labs.grading.labtest.whole_numbers import whole_numbers

TOO = "it is also wrong with the same logits in float32. Which tokens are kept, and where does the draw fall?"


def test_the_largest_draw_gives_a_token_that_was_kept(phase6: ModuleType) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2000, generator=generator)
    largest = 1 - 2**-53  # the largest number that random() returns
    three_best = sorted(logits.topk(3).indices.tolist())
    yours = sampled(
        phase6,
        [
            (logits.tolist(), SamplingParams(temperature=1.0), largest),
            (logits.tolist(), SamplingParams(temperature=1.0, top_k=3), largest),
            (logits.tolist(), SamplingParams(temperature=1.0, top_p=1e-6), largest),
        ],
    )
    expect_equal(
        {"top_k=3: one of the three likeliest": yours[1] in three_best, "tiny top_p: the likeliest": yours[2]},
        {"top_k=3: one of the three likeliest": True, "tiny top_p: the likeliest": int(logits.argmax())},
        rule="The last kept token is chosen even if rounding leaves the sum below the draw.",
        situation=f"2000 tokens, draw {largest}; yours chose {yours}",
        hint="what does your walk return when no sum exceeds the draw?"
        if yours[1] not in three_best
        else "how many tokens does a top_p of 0.000001 keep, and what if no sum exceeds the draw?",
    )


@pytest.mark.parametrize("temperature", [0.01, 0.1, 1e4])
def test_a_temperature_of_any_size_divides_the_logits(phase6: ModuleType, temperature: float) -> None:
    # The probabilities are 0.269 and 0.731 at each of these temperatures.
    rows = [([0.0, temperature], SamplingParams(temperature=temperature), draw) for draw in (0.25, 0.28)]
    expect_tokens(
        phase6,
        rows,
        [0, 1],
        [f"draw {draw}" for *_, draw in rows],
        rule="Only temperature 0 is greedy. Any other temperature divides the logits, however small it is.",
        situation=f"logits 0 and {temperature:g}, temperature {temperature:g}: they are 0 and 1 when divided",
        hint="what are the two logits divided by the temperature, and where else do you use the temperature?",
    )


@pytest.mark.parametrize("top_p", [0.9995, 1 - 2**-20])
def test_a_top_p_just_below_1_is_a_cut(phase6: ModuleType, top_p: float) -> None:
    rare = (1 - top_p) / 2
    rows = [(logs(rare, 1 - rare), SamplingParams(temperature=1.0, top_p=top_p), draw) for draw in (0.0, 1 - 2**-53)]
    expect_tokens(
        phase6,
        rows,
        [1, 1],
        ["draw 0", "the largest draw"],
        rule="A top_p below 1 cuts, however close to 1 it is: tokens after the one that crosses it are dropped.",
        situation=f"probabilities {rare:.3g} and the rest, top_p {top_p:.8f}: the likeliest token alone crosses it",
        hint="does your code apply this top_p, and in which dtype are top_p and the sums?",
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.9])
def test_a_draw_just_below_a_probability_is_told_apart(
    phase6: ModuleType, temperature: float, dtype: torch.dtype
) -> None:
    # The draws are float32 numbers, so any dtype can hold them. In float32 the probability equals the draw.
    probabilities = {step / 4: 1 / (1 + math.exp(-step / 4 / temperature)) for step in range(1, 17)}
    draws = {logit: float(torch.tensor(p, dtype=torch.float32)) for logit, p in probabilities.items()}
    below = [logit for logit, draw in draws.items() if probabilities[logit] - draw > 1e-9]
    params = SamplingParams(temperature=temperature)
    names = [f"probability {probabilities[logit]:.10f}, draw {draws[logit]:.10f}" for logit in below]
    yours = sampled(phase6, [([logit, 0.0], params, draws[logit]) for logit in below], dtype)
    expect_equal(
        dict(zip(names, yours, strict=True)),
        dict.fromkeys(names, 0),
        rule="Probabilities and their sums are float64 numbers, whatever the dtype of the logits.",
        situation=f"two tokens, temperature {temperature}; token 0 is the likelier one, and its probability is a "
        "little more than the draw",
        hint="in which dtype do you divide by the temperature and compute the softmax and the sums, and which has the "
        "number beside them?",
    )


def test_probabilities_of_bfloat16_logits_add_up_in_float64(phase6: ModuleType) -> None:
    # 4,000 equal logits: bfloat16 has only 8 significant bits, so a running sum of probabilities soon stops growing.
    logits, draws = [1.0] * 4000, [0.1, 0.3, 0.5, 0.7, 0.9]
    params = SamplingParams(temperature=1.0)
    yours = sampled(phase6, [(logits, params, draw + 1e-5) for draw in draws], torch.bfloat16)
    rng = random.Random(1)
    logits = list(dict.fromkeys(torch.tensor([rng.gauss(0, 2) for _ in range(9000)]).bfloat16().tolist()))  # no ties
    rng.shuffle(logits)
    settings = [
        SamplingParams(temperature=t, top_k=k, top_p=p) for t in (0.5, 1.3) for k in (0, 40) for p in (0.5, 1.0)
    ]
    expect_equal(
        len(set(yours)),
        len(draws),
        rule="Probabilities and their sums are computed in float64, whatever the dtype of the logits.",
        situation=f"4000 equal logits in bfloat16, draws {draws}; yours chose {yours}; counted: different tokens",
        hint="in which dtype does your code add up probabilities?"
        if len({*sampled(phase6, [([1.0] * 4000, params, draw + 1e-5) for draw in draws])}) == len(draws)
        else TOO,
    )
    chosen = [(logits, params, draw) for params in settings for draw in (0.03, 0.34, 0.62, 0.91)]
    expected = {index: naive_sample(*row) for index, row in enumerate(chosen)}
    tokens = dict(enumerate(sampled(phase6, chosen, torch.bfloat16)))
    clear = {index: token for index, token in expected.items() if token is not None}
    expect_equal(
        {f"t={chosen[i][1].temperature} top_k={chosen[i][1].top_k} draw={chosen[i][2]}": tokens[i] for i in clear},
        {f"t={chosen[i][1].temperature} top_k={chosen[i][1].top_k} draw={chosen[i][2]}": clear[i] for i in clear},
        rule="Probabilities and their sums are computed in float64, whatever the dtype of the logits.",
        situation=f"{len(logits)} logits in bfloat16; chosen tokens",
        hint="in which dtype does your code divide by the temperature, and in which does it add up?"
        if clear.items() <= dict(enumerate(sampled(phase6, chosen))).items()
        else TOO,
    )


def test_sample_makes_its_tensors_on_the_device_of_the_logits(phase6: ModuleType) -> None:
    logits = torch.tensor([logs(0.3, 0.05, 0.5, 0.15)] * 3)
    params = [SamplingParams(temperature=1.0, top_k=3, top_p=0.9), SamplingParams(), SamplingParams(temperature=0.7)]
    situation = "three rows of four logits"
    tokens = call_on_a_device(phase6.sample, logits, params, [0.5] * 3, name="sample", situation=situation)
    assert len(whole_numbers(tokens, "sample")) == 3


@pytest.mark.parametrize(("seed", "vocab_size"), [(0, 5), (1, 12), (2, 40), (3, 40), (4, 300), (5, 3000)])
def test_random_rows_against_the_naive_sampler(phase6: ModuleType, seed: int, vocab_size: int) -> None:
    rng = random.Random(seed)
    rows, expected = list[Row](), list[int]()
    num_rows = 60 if vocab_size < 1000 else 20  # a sampler in plain Python takes one second for 20 of these rows
    while len(rows) < num_rows:
        row = random_row(rng, vocab_size)
        if rng.random() < 0.2:  # ties: tokens with equal logits may appear in any order
            row = ([float(round(logit / 2)) if math.isfinite(logit) else logit for logit in row[0]], *row[1:])
        token = naive_sample(*row)
        if token is not None:
            rows.append(row)
            expected.append(token)
    yours = sampled(phase6, rows)
    wrong = [
        index
        for index, (row, token) in enumerate(zip(rows, yours, strict=True))
        if row[0][token] != row[0][expected[index]]
    ]
    if wrong:
        logits, params, draw = rows[wrong[0]]
        likeliest = sorted(range(vocab_size), key=lambda token: -logits[token])[:8]
        told: Told = {
            "rule": "The order is temperature, top_k, top_p, then the walk; without a cut it goes by token id.",
            "situation": f"row {wrong[0]} of {num_rows}; temperature={params.temperature} top_k={params.top_k} "
            f"top_p={params.top_p:.3f} draw={draw:.6f}\n"
            f"likeliest tokens and logits: {', '.join(f'{token}: {logits[token]:.3f}' for token in likeliest)}",
            "hint": "work this row out by hand. Which tokens are kept, and where does the draw fall?",
        }
        right = expected[wrong[0]]
        expect_equal([yours[wrong[0]]], [right], **told_of_row(phase6, rows, wrong[0], right, told))
