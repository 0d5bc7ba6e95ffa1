"""Defines one simulation as a value: model, GPU, workload, and settings."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from typing import Any

from mini_vllm import EngineConfig, Lineup
from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.policies.named import find_policy
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.runs.workloads.urgency import with_urgent
from mini_vllm_labs.simulation.calibration import Calibration
from mini_vllm_labs.simulation.cost_model import CostModel, gpu_cost_model, pairs
from mini_vllm_labs.simulation.gpus import find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape
from mini_vllm_labs.simulation.roofline import max_concurrency, num_kv_blocks
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.simulation import simulate_under
from mini_vllm_labs.simulation.waiting import WaitingTimes
from mini_vllm_labs.simulation.workloads import make_requests, scaled

DEFAULT_LOAD = 0.7
NUM_SAMPLED_REQUESTS = 2_000  # enough for the mean lengths to be stable
ENGINE = EngineConfig(max_num_seqs=256, max_num_batched_tokens=2048)
OWN_SETTINGS = {"workload": str, "num_requests": int, "rate": float, "seed": int, "gpu": str, "model": str}
OWN_SETTINGS |= {"num_gpus": int, "policy": str, "scale": float}
ENGINE_SETTINGS = (
    *("max_num_seqs", "max_num_batched_tokens", "long_prefill_token_threshold", "block_size", "num_gpu_blocks"),
    *("gpu_memory_utilization", "enable_prefix_caching", "enable_chunked_prefill", "admission_guard"),
)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One simulation. `rate` is in requests per second; None means 70 % (`DEFAULT_LOAD`) of the sustainable rate.

    `policy` names a scheduling policy; one request in five is urgent. `scale` multiplies all lengths. `calibrated`
    replaces the GPU and the model with a measured calibration.
    """

    workload: str = "chat"
    num_requests: int = 10_000  # ten times as many requests take over a minute
    rate: float | None = None
    seed: int = 0
    gpu: str = "H100"
    model: str = "Llama-3.1-8B"
    num_gpus: int = 1
    policy: str = "fcfs"
    engine: EngineConfig = field(default=ENGINE)
    scale: float = 1.0
    calibrated: Calibration | None = None

    @property
    def cost(self) -> CostModel:
        if self.calibrated is not None:
            return self.calibrated.cost
        return gpu_cost_model(find_gpu(self.gpu), find_model_shape(self.model), num_gpus=self.num_gpus)

    def resolved_engine(self) -> EngineConfig:
        """Return the engine's settings with `max_model_len` and as many usable blocks as fit in memory."""
        if self.calibrated is not None:
            return self.engine.resolved(self.calibrated.max_model_len, self.calibrated.num_gpu_blocks)
        shape = find_model_shape(self.model)
        num_fitting = num_kv_blocks(
            find_gpu(self.gpu),
            shape,
            num_gpus=self.num_gpus,
            block_size=self.engine.block_size,
            gpu_memory_utilization=self.engine.gpu_memory_utilization,
            max_num_batched_tokens=self.engine.max_num_batched_tokens,
        )
        longest = self.engine.max_model_len or shape.max_model_len
        # Blocks that can never be used would only make the free queue longer.
        num_useful = self.engine.max_num_seqs * cdiv(longest, self.engine.block_size) + 1
        return self.engine.resolved(shape.max_model_len, min(num_fitting, num_useful))

    def with_rate(self) -> "Experiment":
        if self.rate is not None:
            return self
        sample = scaled(make_requests(self.workload, NUM_SAMPLED_REQUESTS, 1.0, self.seed), self.scale)
        bearable = sustainable_rate(sample, self.resolved_engine(), self.cost)
        return replace(self, rate=float(f"{DEFAULT_LOAD * bearable:.2g}"))

    def run(
        self,
        lineup: Lineup,
        on_progress: Callable[[int], None] = lambda num_finished: None,
        waits: WaitingTimes | None = None,
    ) -> Served:
        """Run the simulation. Raises `ValueError` for incompatible settings, and `StalledError` like `simulate`."""
        settled = self.with_rate()
        assert settled.rate is not None
        requests = scaled(make_requests(self.workload, self.num_requests, settled.rate, self.seed), self.scale)
        marked = with_urgent(requests, self.seed)
        return simulate_under(self.policy, marked, self.resolved_engine(), self.cost, lineup, on_progress, waits)

    def require_legal(self) -> None:
        """Raise `ValueError` for an illegal setting, an unknown name or a model that does not fit its GPU."""
        if self.num_gpus < 1:
            raise ValueError(f"num_gpus must be at least 1, got {self.num_gpus}")
        scaled(make_requests(self.workload, min(1, self.num_requests), self.rate or 1.0, self.seed), self.scale)
        find_policy(self.policy)
        self.resolved_engine()

    def with_setting(self, name: str, text: str) -> "Experiment":
        """Return the experiment with one setting parsed from text. Raises `ValueError`."""
        if name in OWN_SETTINGS:
            return replace(self, **{name: _read(name, text, OWN_SETTINGS[name])})
        if name in ENGINE_SETTINGS:
            kind = {field.name: field.type for field in fields(EngineConfig)}[name]
            value: Any = _read_bool(name, text) if kind is bool else _read(name, text, float if kind is float else int)
            return replace(self, engine=replace(self.engine, **{name: value}))
        known = ", ".join([*OWN_SETTINGS, *ENGINE_SETTINGS])
        raise ValueError(f"the setting to sweep must be one of {known}, got {name!r}")


def sustainable_rate(sample: list[TimedRequest], config: EngineConfig, cost: CostModel) -> float:
    """Estimate how many of the experiment's requests can be served per second without prefix-cache hits.

    A request costs its prefill and its share of the decode steps in the largest batch that fits in memory.
    """
    assert config.num_gpu_blocks is not None
    prompt, answer = (fmean(r.num_prompt_tokens for r in sample), fmean(r.num_output_tokens for r in sample))
    num_prompt_tokens, longest = round(prompt), round(prompt + answer)
    batch = max(1, min(config.max_num_seqs, max_concurrency(config.num_gpu_blocks, longest, config.block_size)))
    context = round(batch * (prompt + answer / 2))
    decode_seconds = cost.step_seconds(batch, batch, context, context, batch) * answer / batch
    chunk = cost.step_seconds(1, num_prompt_tokens, num_prompt_tokens, pairs(0, num_prompt_tokens), 1)
    return 1 / (decode_seconds + chunk)


def parse_sweep(text: str) -> tuple[str, list[str]]:
    """Return the setting and the values in `SETTING=a,b,c`; dashes count as underscores. Raises `ValueError`."""
    name, equals, values = text.partition("=")
    found = [value.strip() for value in values.split(",") if value.strip()]
    if not equals or not found:
        raise ValueError(f"a sweep must look like SETTING=a,b,c, as in max_num_batched_tokens=512,2048, got {text!r}")
    return name.strip().replace("-", "_"), found


def _read(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def _read_bool(name: str, text: str) -> bool:
    known = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if text.lower() not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {text!r}")
    return known[text.lower()]
