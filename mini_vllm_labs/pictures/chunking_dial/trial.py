"""Simulates one setting and returns the figures to draw."""

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

from mini_vllm.config import EngineConfig
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.experiment import NUM_SAMPLED_REQUESTS, Experiment, sustainable_rate
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.what_if import what_if
from mini_vllm_labs.simulation.workloads import make_requests

MARKED = (50.0, 95.0, 99.0)
LADDER = tuple(sorted({1.0, *(float(p) for p in range(2, 90, 2)), *(p / 2 for p in range(180, 200))}))
"""The percentiles that a curve goes through, including the marked ones."""

Percentiles = dict[float, float]  # maps a percentile to seconds


@dataclass(frozen=True)
class Setting:
    """The values of the knobs.

    `load` is a percentage of the rate that the GPU sustains; the other knobs are as in vLLM.
    """

    workload: str = "mixed"
    load: int = 90
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0
    max_num_seqs: int = 256

    def differences(self, other: "Setting") -> list[tuple[str, str, str]]:
        """Return the name of each knob whose value differs in `other`, and both values as text."""
        pairs = [(field.name, getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return [(name, as_text(name, mine), as_text(name, theirs)) for name, mine, theirs in pairs if mine != theirs]


def as_text(name: str, value: object) -> str:
    if name == "load":
        return f"{value} %"
    if name == "long_prefill_token_threshold" and value == 0:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Deployment:
    """The constants shared by all settings: a GPU, a model, and the number of requests."""

    gpu: str = "H100"
    model: str = "Llama-3.1-8B"
    num_requests: int = 2_000

    def engine_and_cost(self, setting: Setting) -> tuple[EngineConfig, CostModel]:
        """Return the engine's settings on this GPU, and the cost of its steps."""
        experiment = Experiment(gpu=self.gpu, model=self.model)
        knobs = ("max_num_seqs", "max_num_batched_tokens", "long_prefill_token_threshold")
        engine = replace(experiment.engine, **{name: getattr(setting, name) for name in knobs})
        return replace(experiment, engine=engine).resolved_engine(), experiment.cost


@dataclass(frozen=True)
class Trial:
    """The result of a setting, with times in seconds. `room_for_tokens` is the number of tokens that fit in memory."""

    setting: Setting
    deployment: Deployment
    rate: float
    served: Served
    room_for_tokens: int

    @cached_property
    def times_to_first_token(self) -> Percentiles:
        return dict(zip(LADDER, self.served.time_to_first_token(LADDER), strict=True))

    @cached_property
    def inter_token_latencies(self) -> Percentiles:
        return dict(zip(LADDER, self.served.inter_token_latency(LADDER), strict=True))


@lru_cache(maxsize=32)
def arrivals(deployment: Deployment, workload: str, load: int) -> tuple[float, list[TimedRequest]]:
    """Return the arrival rate (`load` percent of the rate that the GPU sustains by default) and a workload's requests.

    The engine's knobs do not change the rate, so all settings serve the same requests.
    Raises `ValueError` for a request that is too long for the model.
    """
    experiment = Experiment(workload, gpu=deployment.gpu, model=deployment.model)
    sample = make_requests(workload, NUM_SAMPLED_REQUESTS, 1.0)
    config = experiment.resolved_engine()
    rate = load / 100 * sustainable_rate(sample, config, experiment.cost)
    requests = make_requests(workload, deployment.num_requests, rate)
    longest = max(request.num_prompt_tokens + request.num_output_tokens for request in requests)
    assert config.max_model_len is not None
    if longest > config.max_model_len:
        raise ValueError(
            f"model is {deployment.model}, which accepts up to {config.max_model_len:,} tokens, but the longest request"
            f" in {workload!r} has {longest:,}: choose a model that can hold it"
        )
    return rate, requests


@lru_cache(maxsize=64)  # each answer also shows the previous setting
def try_setting(setting: Setting, deployment: Deployment) -> Trial:
    """Serve the requests in simulated time. Raises `ValueError` for incompatible settings."""
    config, cost = deployment.engine_and_cost(setting)
    rate, requests = arrivals(deployment, setting.workload, setting.load)
    assert config.num_gpu_blocks is not None
    room_for_tokens = (config.num_gpu_blocks - 1) * config.block_size
    return Trial(setting, deployment, rate, what_if(requests, config, cost), room_for_tokens)
