"""Declares the engine's settings as options, once for all commands. An option that was not given is None."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import typer

from mini_vllm.config import EngineConfig, KVTransferConfig, SpeculativeConfig

TRANSFER_OPTIONS = ("kv_connector", "kv_buffer_size", "shared_storage_path")


def _option(help: str | None = None, *names: str) -> Any:
    return typer.Option(*names, help=help, show_default=False, rich_help_panel="Engine settings, named as in vLLM")


@dataclass(frozen=True)
class SchedulerOptions:
    max_num_seqs: Annotated[int | None, _option("Most running requests.")] = None
    max_num_batched_tokens: Annotated[int | None, _option("Token budget of a step.")] = None
    long_prefill_token_threshold: Annotated[
        int | None, _option("Most tokens of one request in a step; 0: no limit.")
    ] = None
    max_model_len: Annotated[int | None, _option("Most tokens of a request.")] = None
    block_size: Annotated[int | None, _option("Tokens per block.")] = None
    num_gpu_blocks: Annotated[int | None, _option("Blocks, null block included.")] = None
    enable_prefix_caching: Annotated[bool | None, _option()] = None
    enable_chunked_prefill: Annotated[bool | None, _option()] = None
    admission_guard: Annotated[bool | None, _option()] = None


@dataclass(frozen=True)
class EngineOptions(SchedulerOptions):
    """The settings of a whole engine, including electives."""

    policy: Annotated[Literal["fcfs", "priority"] | None, _option(None, "--scheduling-policy")] = None
    speculative_method: Annotated[
        Literal["ngram", "draft_model"] | None,
        _option("Draft tokens by prompt lookup or by a small model; needs phase 7."),
    ] = None
    num_speculative_tokens: Annotated[int | None, _option("Most drafts of a request in a step. Default: 4.")] = None
    async_scheduling: Annotated[bool | None, _option("Plan a step ahead of the runner; needs phase 8.")] = None
    kv_connector: Annotated[
        Literal["host", "swap", "disk", "prefill"] | None,
        _option("Keep blocks in memory, only of preempted requests, or on disk; or a prefill process. Needs phase 10."),
    ] = None
    kv_buffer_size: Annotated[int | None, _option("Most bytes of these blocks. Default: 1 GiB.")] = None
    shared_storage_path: Annotated[str | None, _option("The folder of --kv-connector disk.")] = None
    check_invariants: Annotated[
        bool | None, _option("Check queues, counters and blocks after every step. Not in vLLM.")
    ] = None


@dataclass(frozen=True)
class RunnerOptions:
    """The settings of the real model's runner."""

    dtype: Annotated[
        Literal["float32", "bfloat16"] | None, _option("Type of weights and KV cache. Default: float32.")
    ] = None
    quantization: Annotated[
        Literal["int8"] | None, _option("Round weights to int8 at load: faster, but texts may differ.")
    ] = None
    enforce_eager: Annotated[bool | None, _option("On a GPU, run every step without CUDA graphs.")] = None
    prepack_weights: Annotated[bool | None, _option("Reorder the weights for this CPU at load.")] = None


def engine_config(defaults: EngineConfig, *options: SchedulerOptions | RunnerOptions) -> EngineConfig:
    """Return `defaults` with the given settings changed. Raises `ValueError` like `EngineConfig`."""
    given: dict[str, Any] = {}
    for group in options:
        given |= {name: value for name, value in vars(group).items() if value is not None}
    method, num_drafts = given.pop("speculative_method", None), given.pop("num_speculative_tokens", None)
    if method is None and num_drafts is not None:
        raise ValueError(f"num_speculative_tokens={num_drafts} needs --speculative-method: ngram or draft_model")
    if method is not None:
        chosen = {} if num_drafts is None else {"num_speculative_tokens": num_drafts}
        given["speculative_config"] = SpeculativeConfig(method, **chosen)
    transfer = {name: given.pop(name) for name in TRANSFER_OPTIONS if name in given}
    if transfer:
        given["kv_transfer_config"] = KVTransferConfig(**transfer)
    return replace(defaults, **given)
