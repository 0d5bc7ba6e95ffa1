"""A cost model fitted to steps that were really taken, and the file that it is kept in."""

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
"""A rate so high that its part of a step takes no time."""
NUM_ROUNDS = 30
FEWEST_STEPS = 20


class MeasuredStep(NamedTuple):
    """One step of an engine: what was in it, and the seconds that it took."""

    counts: StepCounts
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted cost model, with what an engine on the same machine and model has.

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
    """Return the cost model whose bandwidth, arithmetic and overheads explain the steps best.

    Both ways of joining reading and computing are tried, one after the other and overlapped; the one with
    the smaller typical error is returned. Raises `ValueError` for too few steps.
    """
    if len(steps) < FEWEST_STEPS:
        raise ValueError(f"a calibration needs at least {FEWEST_STEPS} steps, got {len(steps)}")
    in_turn = _fit_rates(steps, shape, bytes_per_number, [True] * len(steps), [True] * len(steps))
    overlapped = _fit_overlapped(steps, shape, bytes_per_number)
    return min(in_turn, overlapped, key=lambda cost: typical_error(cost, steps))


def typical_error(cost: CostModel, steps: Sequence[MeasuredStep]) -> float:
    """Return the median of |predicted / measured - 1|."""
    return median(abs(cost.step_seconds(*step.counts) / step.seconds - 1) for step in steps)


def _fit_overlapped(steps: Sequence[MeasuredStep], shape: ModelShape, bytes_per_number: int) -> CostModel:
    """Guess which steps are bound by memory, fit, look again, until nothing changes."""
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
    """Fit the seconds of a step as a sum of its parts, none of them below 0."""
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
        [part / step.seconds for part in _parts(unit, step.counts, has_memory, has_compute)]
        for step, has_memory, has_compute in zip(steps, by_memory, by_compute, strict=True)
    ]
    return _cost_of(Seconds(*least_deviations(rows)), unit)


class Seconds(NamedTuple):
    """What is fitted, in seconds: for a byte of the weights, a step, a request, a byte of K and V, an operation
    on weights, and one of attention.
    """

    weight_byte: float
    step: float
    request: float
    kv_byte: float
    operation: float
    attention: float


def _parts(unit: CostModel, counts: StepCounts, has_memory: bool, has_compute: bool) -> Seconds:
    """Return how much of each a step has."""
    return Seconds(
        unit.weight_bytes * has_memory,
        1.0,
        counts.num_requests,
        unit.kv_bytes_per_token * counts.num_context_tokens * has_memory,
        _operations(unit, counts) * has_compute,
        unit.flops_per_pair * counts.num_pairs * has_compute,
    )


def _cost_of(found: Seconds, unit: CostModel) -> CostModel:
    """Return the cost model with these parts.

    Copying K and V out of the cache takes longer than reading them, and attention reaches a lower rate than
    products with weights. So a fitted model counts a byte of K and V, or an operation of attention, as the
    bytes of weights and the operations that take as long.
    """
    weight_byte, per_step = found.weight_byte, found.step
    if not unit.overlaps and 0 < found.kv_byte < weight_byte:
        # Weights are read once a step: only K and V tell how much of a step's constant part is reading.
        per_step += unit.weight_bytes * (weight_byte - found.kv_byte)
        weight_byte = found.kv_byte
    byte, operation = weight_byte or found.kv_byte, found.operation or found.attention
    return replace(
        unit,
        weight_bytes=unit.weight_bytes * _times(weight_byte, byte),
        kv_bytes_per_token=unit.kv_bytes_per_token * _times(found.kv_byte, byte),
        flops_per_token=unit.flops_per_token * _times(found.operation, operation),
        flops_per_logits_row=unit.flops_per_logits_row * _times(found.operation, operation),
        flops_per_pair=unit.flops_per_pair * _times(found.attention, operation),
        bandwidth=1 / byte if byte else NEVER,
        flop_rate=1 / operation if operation else NEVER,
        seconds_per_step=per_step,
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
    """Read what `write_calibration` wrote. Raises `ValueError` if the file is not there or is something else."""
    try:
        record = json.loads(Path(path).read_text())
        cost = CostModel(**record.pop("cost"))
        calibration = Calibration(**record, cost=cost)
        numbers = [getattr(cost, field.name) for field in fields(CostModel)]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is no calibration of `mini-vllm calibrate`: {error}") from error
    if not all(isinstance(number, int | float) and number >= 0 for number in numbers):
        raise ValueError(f"{path} is no calibration of `mini-vllm calibrate`: a number of its cost model is not legal")
    return calibration
