"""A cost model fitted to steps that were really taken, and the file that it is kept in."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from mini_vllm.simulator.cost_model import CostModel, StepCounts, model_cost
from mini_vllm.simulator.model_shapes import ModelShape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEVER = 1e30
"""A rate so high that its part of a step takes no time."""
NUM_ROUNDS = 30
SMALLEST_RESIDUAL = 1e-3
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
    """Fit seconds = per step + per request + bytes / bandwidth + operations / rate, none of them below 0."""
    import numpy as np

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
        (
            1.0,
            step.counts.num_requests,
            _memory_seconds(unit, step.counts) * has_memory,
            _compute_seconds(unit, step.counts) * has_compute,
        )
        for step, has_memory, has_compute in zip(steps, by_memory, by_compute, strict=True)
    ]
    seconds = np.array([step.seconds for step in steps])
    per_step, per_request, per_byte, per_flop = _least_deviations(np.array(rows) / seconds[:, None])
    return model_cost(
        shape,
        bytes_per_number,
        bandwidth=1 / per_byte if per_byte else NEVER,
        flop_rate=1 / per_flop if per_flop else NEVER,
        seconds_per_step=per_step,
        seconds_per_request=per_request,
        overlaps=overlaps,
    )


def _least_deviations(rows: "NDArray[np.float64]") -> list[float]:
    """Return x >= 0 that makes `rows` times x as near to 1 as possible, where a few outliers do not matter.

    Least squares in rounds: a row that is far off weighs less in the next round.
    """
    import numpy as np

    weights = np.ones(len(rows))
    for _ in range(NUM_ROUNDS):
        found = _non_negative_least_squares(rows * weights[:, None], weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(rows @ found - 1), SMALLEST_RESIDUAL))
    return [float(value) for value in found]


def _non_negative_least_squares(rows: "NDArray[np.float64]", target: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Try all choices of columns, of which there are few, and return the best solution that is nowhere below 0."""
    import numpy as np

    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    num_columns = rows.shape[1]
    best, best_error = np.zeros(num_columns), np.inf
    for size in range(1, num_columns + 1):
        for columns in itertools.combinations(range(num_columns), size):
            chosen = list(columns)
            part = np.linalg.lstsq(rows[:, chosen] / scale[chosen], target, rcond=None)[0]
            error = float(np.square(rows[:, chosen] / scale[chosen] @ part - target).sum())
            if (part >= 0).all() and error < best_error * (1 - 1e-9):
                best, best_error = np.zeros(num_columns), error
                best[chosen] = part / scale[chosen]
    return best


def _memory_seconds(cost: CostModel, counts: StepCounts) -> float:
    return (cost.weight_bytes + cost.kv_bytes_per_token * counts.num_context_tokens) / cost.bandwidth


def _compute_seconds(cost: CostModel, counts: StepCounts) -> float:
    flops = (
        cost.flops_per_token * counts.num_tokens
        + cost.flops_per_logits_row * counts.num_sampled
        + cost.flops_per_pair * counts.num_pairs
    )
    return flops / cost.flop_rate


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
