"""Models the time that a step takes: bytes over bandwidth, operations over compute rate, and overhead."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.simulation.gpus import Gpu
from mini_vllm_labs.simulation.model_shapes import ModelShape
from mini_vllm_labs.simulation.roofline import BYTES_PER_NUMBER, attention_flops_per_pair, kv_bytes_per_token

# Assumed, not measured: the fraction of a data sheet's figures that good kernels reach, and a step's overhead.
BANDWIDTH_EFFICIENCY = 0.8
COMPUTE_EFFICIENCY = 0.6
GPU_SECONDS_PER_STEP = 1e-3
GPU_SECONDS_PER_REQUEST = 5e-6


@dataclass(frozen=True, slots=True)
class CostModel:
    """Computes a step's time in seconds from its five counts.

    `weight_bytes` are read once per step, and `kv_bytes_per_token` are read for every attended token.
    `flops_per_token`, `flops_per_logits_row`, `flops_per_pair`: operations per computed token, per sampled token, and
    per query-key pair. `bandwidth` (bytes/s) and `flop_rate` (operations/s) are achieved rates, not data-sheet rates; a
    fitted model weights bytes and operations by the time that they take. With `overlaps`, a GPU reads while it
    computes, so the longer time counts; otherwise, the two are added.
    """

    weight_bytes: float
    kv_bytes_per_token: float
    flops_per_token: float
    flops_per_logits_row: float
    flops_per_pair: float
    bandwidth: float
    flop_rate: float
    seconds_per_step: float = 0.0
    seconds_per_request: float = 0.0
    overlaps: bool = True

    def step_seconds(
        self, num_requests: int, num_tokens: int, num_context_tokens: int, num_pairs: int, num_sampled: int
    ) -> float:
        """Return a step's time in seconds.

        `num_context_tokens` counts attended tokens, summed over the requests; `num_pairs` counts attended tokens,
        summed over the computed tokens.
        """
        num_bytes, flops = self.work(num_tokens, num_context_tokens, num_pairs, num_sampled)
        memory, compute = num_bytes / self.bandwidth, flops / self.flop_rate
        work = max(memory, compute) if self.overlaps else memory + compute
        return self.seconds_per_step + self.seconds_per_request * num_requests + work

    def work(self, num_tokens: int, num_context_tokens: int, num_pairs: int, num_sampled: int) -> tuple[float, float]:
        """Return how many bytes a step reads and how many operations it performs.

        Takes the same arguments as `step_seconds`.
        """
        num_bytes = self.weight_bytes + self.kv_bytes_per_token * num_context_tokens
        flops = (
            self.flops_per_token * num_tokens
            + self.flops_per_logits_row * num_sampled
            + self.flops_per_pair * num_pairs
        )
        return num_bytes, flops

    def seconds(self, batch: Sequence[ScheduledRequest]) -> float:
        return self.step_seconds(*count_batch(batch))


class StepCounts(NamedTuple):
    """The counts of a step that determine its time, in the order of `CostModel.step_seconds`."""

    num_requests: int
    num_tokens: int
    num_context_tokens: int
    num_pairs: int
    num_sampled: int


def count_batch(batch: Sequence[ScheduledRequest]) -> StepCounts:
    num_tokens = num_context_tokens = num_pairs = num_sampled = 0
    for row in batch:
        n = row.num_scheduled_tokens
        num_tokens += n
        num_context_tokens += row.num_computed_tokens + n
        num_pairs += pairs(row.num_computed_tokens, n)
        num_sampled += row.needs_token * (1 + len(row.draft_token_ids))  # verifying a draft needs its logits
    return StepCounts(len(batch), num_tokens, num_context_tokens, num_pairs, num_sampled)


def pairs(num_computed_tokens: int, num_new_tokens: int) -> int:
    """Return the number of (query, key) pairs of new tokens, which attend to earlier tokens and to themselves."""
    return num_new_tokens * num_computed_tokens + num_new_tokens * (num_new_tokens + 1) // 2


def roofline(gpu: Gpu, model: ModelShape, num_gpus: int = 1, bytes_per_number: int = BYTES_PER_NUMBER) -> CostModel:
    """Return a cost model that no step can beat: data-sheet figures, no overhead, and all GPUs treated as one."""
    return CostModel(
        **model_counts(model, bytes_per_number),
        bandwidth=gpu.bandwidth * num_gpus,
        flop_rate=gpu.peak_flops * num_gpus,
        overlaps=True,
    )


def gpu_cost_model(gpu: Gpu, model: ModelShape, *, num_gpus: int = 1) -> CostModel:
    """Return the cost model of a model with 2-byte weights on `num_gpus` GPUs treated as one."""
    bound = roofline(gpu, model, num_gpus)
    return replace(
        bound,
        bandwidth=bound.bandwidth * BANDWIDTH_EFFICIENCY,
        flop_rate=bound.flop_rate * COMPUTE_EFFICIENCY,
        seconds_per_step=GPU_SECONDS_PER_STEP,
        seconds_per_request=GPU_SECONDS_PER_REQUEST,
    )


def model_counts(model: ModelShape, bytes_per_number: int) -> dict[str, float]:
    """Return the fields of a `CostModel` that depend only on the model: its bytes and operations."""
    return {
        "weight_bytes": model.num_parameters_read * bytes_per_number,
        "kv_bytes_per_token": kv_bytes_per_token(model, bytes_per_number),
        "flops_per_token": 2 * model.num_matrix_parameters,
        "flops_per_logits_row": 2 * model.num_embedding_parameters,
        "flops_per_pair": attention_flops_per_pair(model),
    }
