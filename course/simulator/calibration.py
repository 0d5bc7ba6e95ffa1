"""Fit a cost model to measured steps; read and write it as a file."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from course.simulator.cost_model import CostModel, StepCounts, model_cost
from course.simulator.least_deviations import least_deviations
from course.simulator.model_shapes import ModelShape

NEVER = 1e30
"""A rate at which a part of a step takes no time."""
NUM_ROUNDS = 30
FEWEST_STEPS = 20
EQUAL = 1e-9
"""Typical errors that differ by less are equal: no rounding may choose between two models."""


class MeasuredStep(NamedTuple):
    """One step of an engine: its counts, and the seconds it took."""

    counts: StepCounts
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted cost model, and the settings of the engine it was measured on.

    `typical_error` is the median over the steps of |predicted / measured - 1|.
    """

    model: str
    dtype: str
    max_model_len: int
    num_gpu_blocks: int
    num_steps: int
    typical_error: float
    cost: CostModel


def fit(steps: Sequence[MeasuredStep], shape: ModelShape, bytes_per_number: int) -> CostModel:
    """Return the cost model whose bandwidth, compute rate and overheads fit the steps best.

    Two models are fitted: reading and computing one after the other, and overlapped. The one with the smaller
    typical error is returned. Raises `ValueError` for fewer than 20 steps (`FEWEST_STEPS`).
    """
    if len(steps) < FEWEST_STEPS:
        raise ValueError(f"a calibration needs at least {FEWEST_STEPS} steps, got {len(steps)}")
    in_turn = _fit_rates(steps, shape, bytes_per_number, [True] * len(steps), [True] * len(steps))
    overlapped = _fit_overlapped(steps, shape, bytes_per_number)
    is_better = typical_error(overlapped, steps) < typical_error(in_turn, steps) - EQUAL
    return overlapped if is_better else in_turn


def typical_error(cost: CostModel, steps: Sequence[MeasuredStep]) -> float:
    """Return the median of |predicted / measured - 1|."""
    return median(abs(cost.step_seconds(*step.counts) / step.seconds - 1) for step in steps)


def _fit_overlapped(steps: Sequence[MeasuredStep], shape: ModelShape, bytes_per_number: int) -> CostModel:
    """Guess which steps are memory-bound, fit, classify them by the fit, and repeat until nothing changes."""
    by_memory = [step.counts.num_tokens <= 2 * step.counts.num_requests for step in steps]
    for _ in range(NUM_ROUNDS):
        by_compute = [not is_bound for is_bound in by_memory]
        cost = _fit_rates(steps, shape, bytes_per_number, by_memory, by_compute, overlaps=True)
        before = by_memory
        by_memory = [_memory_seconds(cost, step.counts) >= _compute_seconds(cost, step.counts) for step in steps]
        if by_memory == before:
            break
    return cost


def _fit_rates(
    steps: Sequence[MeasuredStep],
    shape: ModelShape,
    bytes_per_number: int,
    by_memory: Sequence[bool],
    by_compute: Sequence[bool],
    *,
    overlaps: bool = False,
) -> CostModel:
    """Fit the seconds of a step as a sum of its parts, none of them negative.

    If every step counts the reading of the weights, this part is as constant as the overhead of a step, and no fit
    can separate the two: then they are fitted as one constant, which `_split` divides.
    """
    is_constant = all(by_memory)
    unit = model_cost(
        shape,
        bytes_per_number,
        bandwidth=1.0,
        flop_rate=1.0,
        seconds_per_step=0.0,
        seconds_per_request=0.0,
        overlaps=overlaps,
    )
    rows = [
        [
            part / step.seconds
            for part in _parts(unit, step.counts, has_memory and not is_constant, has_memory, has_compute)
        ]
        for step, has_memory, has_compute in zip(steps, by_memory, by_compute, strict=True)
    ]
    found = Seconds(*least_deviations(rows))
    return _cost_of(_split(found, unit) if is_constant else found, unit)


class Seconds(NamedTuple):
    """The coefficients of the fit: seconds for each byte of the weights, step, request, byte of K and V, operation
    on weights, and operation of attention.
    """

    weight_byte: float
    step: float
    request: float
    kv_byte: float
    operation: float
    attention: float


def _parts(unit: CostModel, counts: StepCounts, has_weights: bool, has_memory: bool, has_compute: bool) -> Seconds:
    """Return how many bytes, requests and operations of each kind a step has."""
    return Seconds(
        unit.weight_bytes * has_weights,
        1.0,
        counts.num_requests,
        unit.kv_bytes_per_token * counts.num_context_tokens * has_memory,
        _operations(unit, counts) * has_compute,
        unit.flops_per_pair * counts.num_pairs * has_compute,
    )


def _split(found: Seconds, unit: CostModel) -> Seconds:
    """Divide the constant part of a step: the weights are read at the rate of K and V, the rest is overhead."""
    weight_byte = min(found.kv_byte, found.step / unit.weight_bytes)
    return found._replace(weight_byte=weight_byte, step=found.step - weight_byte * unit.weight_bytes)


def _cost_of(found: Seconds, unit: CostModel) -> CostModel:
    """Return the cost model with these coefficients.

    Copying K and V out of the cache takes longer than reading them, and attention reaches a lower rate than
    products with weights. So a fitted model counts a byte of K and V, or an operation of attention, as the
    number of weight bytes or operations that take as long.
    """
    byte, operation = found.weight_byte or found.kv_byte, found.operation or found.attention
    return replace(
        unit,
        weight_bytes=unit.weight_bytes * _times(found.weight_byte, byte),
        kv_bytes_per_token=unit.kv_bytes_per_token * _times(found.kv_byte, byte),
        flops_per_token=unit.flops_per_token * _times(found.operation, operation),
        flops_per_logits_row=unit.flops_per_logits_row * _times(found.operation, operation),
        flops_per_pair=unit.flops_per_pair * _times(found.attention, operation),
        bandwidth=1 / byte if byte else NEVER,
        flop_rate=1 / operation if operation else NEVER,
        seconds_per_step=found.step,
        seconds_per_request=found.request,
    )


def _times(seconds: float, base: float) -> float:
    return seconds / base if base else 1.0


def _memory_seconds(cost: CostModel, counts: StepCounts) -> float:
    return (cost.weight_bytes + cost.kv_bytes_per_token * counts.num_context_tokens) / cost.bandwidth


def _compute_seconds(cost: CostModel, counts: StepCounts) -> float:
    return (_operations(cost, counts) + cost.flops_per_pair * counts.num_pairs) / cost.flop_rate


def _operations(cost: CostModel, counts: StepCounts) -> float:
    return cost.flops_per_token * counts.num_tokens + cost.flops_per_logits_row * counts.num_sampled


def write_calibration(path: str, calibration: Calibration) -> None:
    """Write the calibration as JSON."""
    Path(path).write_text(json.dumps(asdict(calibration), indent=2) + "\n")


def read_calibration(path: str) -> Calibration:
    """Read a file of `write_calibration`. Raises `ValueError` if it is missing or something else."""
    try:
        record = json.loads(Path(path).read_text())
        cost = CostModel(**record.pop("cost"))
        calibration = Calibration(**record, cost=cost)
        numbers = [getattr(cost, field.name) for field in fields(CostModel)]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a calibration of `mini-vllm calibrate`: {error}") from error
    if not all(isinstance(number, int | float) and number >= 0 for number in numbers):
        raise ValueError(f"{path} is not a calibration of `mini-vllm calibrate`: its cost model has a bad number")
    return calibration
