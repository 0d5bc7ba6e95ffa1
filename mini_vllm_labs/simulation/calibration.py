"""Fits a cost model to measured steps, and reads and writes it as a file."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from mini_vllm_labs.simulation.cost_model import CostModel, StepCounts, model_counts
from mini_vllm_labs.simulation.model_shapes import ModelShape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEVER = 1e30  # at this rate, a part of a step takes no time
NUM_ROUNDS = 30
MIN_RESIDUAL = 1e-3  # an exact fit would give a row infinite weight
MIN_STEPS = 20


class MeasuredStep(NamedTuple):
    """One step of an engine: its counts, and the seconds that it took."""

    counts: StepCounts
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted cost model, and the settings of the engine on which it was measured.

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
    """Return the cost model whose rates and overheads best fit the steps, assuming that reads and computation do not
    overlap.

    Every step reads the weights, so a fit cannot separate this time from overhead. The fit assumes that weights are
    read at the same rate as K and V; the remaining time is overhead. Copying K and V from the cache is slower than
    reading weights, and attention is slower than multiplying by the weights. A byte of K and V, or an attention
    operation, therefore counts as the number of weight bytes or operations that take equally long. Raises `ValueError`
    for fewer than 20 steps (`MIN_STEPS`).
    """
    import numpy as np

    if len(steps) < MIN_STEPS:
        raise ValueError(f"a calibration needs at least {MIN_STEPS} steps, got {len(steps)}")
    plain = CostModel(**model_counts(shape, bytes_per_number), bandwidth=1.0, flop_rate=1.0, overlaps=False)
    parts = [
        (
            1.0,
            counts.num_requests,
            plain.kv_bytes_per_token * counts.num_context_tokens,
            plain.flops_per_token * counts.num_tokens + plain.flops_per_logits_row * counts.num_sampled,
            plain.flops_per_pair * counts.num_pairs,
        )
        for counts, _ in steps
    ]
    seconds = np.array([step.seconds for step in steps])
    # Dividing by the seconds gives the same weight to the errors of short and long steps.
    constant, request, kv_byte, operation, attention = least_deviations(np.array(parts) / seconds[:, None])
    weight_byte = min(kv_byte, constant / plain.weight_bytes)
    byte, flop = weight_byte or kv_byte, operation or attention
    return replace(
        plain,
        weight_bytes=plain.weight_bytes if weight_byte or not byte else 0.0,
        kv_bytes_per_token=plain.kv_bytes_per_token * (kv_byte / byte if byte else 1.0),
        flops_per_token=plain.flops_per_token if operation or not flop else 0.0,
        flops_per_logits_row=plain.flops_per_logits_row if operation or not flop else 0.0,
        flops_per_pair=plain.flops_per_pair * (attention / flop if flop else 1.0),
        bandwidth=1 / byte if byte else NEVER,
        flop_rate=1 / flop if flop else NEVER,
        seconds_per_step=max(0.0, constant - weight_byte * plain.weight_bytes),  # rounding must not make this negative
        seconds_per_request=request,
    )


def least_deviations(rows: "NDArray[np.float64]") -> list[float]:
    """Return x >= 0 that brings `rows` times x as close to 1 as possible, with little effect from outliers.

    The method is iteratively reweighted least squares: a row with a large residual has less weight in the next round.
    If any coefficients would be negative, the most negative one is dropped.
    """
    import numpy as np

    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0  # this part does not occur in any step
    scaled, weights = rows / scale, np.ones(len(rows))
    for _ in range(NUM_ROUNDS):
        chosen = list(range(rows.shape[1]))
        part = np.linalg.lstsq(scaled * weights[:, None], weights, rcond=None)[0]
        while (part < 0).any():
            del chosen[int(part.argmin())]
            part = np.linalg.lstsq(scaled[:, chosen] * weights[:, None], weights, rcond=None)[0]
        found = np.zeros(rows.shape[1])
        found[chosen] = part
        weights = 1 / np.sqrt(np.maximum(np.abs(scaled @ found - 1), MIN_RESIDUAL))
    return [float(value) for value in found / scale]


def typical_error(cost: CostModel, steps: Sequence[MeasuredStep]) -> float:
    """Return the median of |predicted / measured - 1|."""
    return median(abs(cost.step_seconds(*step.counts) / step.seconds - 1) for step in steps)


def write_calibration(path: str, calibration: Calibration) -> None:
    Path(path).write_text(json.dumps(asdict(calibration), indent=2) + "\n")


def read_calibration(path: str) -> Calibration:
    """Read a file written by `write_calibration`. Raises `ValueError` if the file is missing or invalid."""
    try:
        record = json.loads(Path(path).read_text())
        cost = CostModel(**record.pop("cost"))
        calibration = Calibration(**record, cost=cost)
        numbers = [getattr(cost, field.name) for field in fields(CostModel)]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a calibration from `mini-vllm calibrate`: {error}") from error
    if not all(isinstance(number, int | float) and number >= 0 for number in numbers):
        raise ValueError(
            f"{path} is not a calibration from `mini-vllm calibrate`: its cost model contains an invalid number"
        )
    return calibration
