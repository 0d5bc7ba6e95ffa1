"""Translates vLLM's settings and requests into those of our engine, and rejects unsupported ones with a message."""

from typing import Any

import vllm
from vllm.config import VllmConfig
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig
from vllm.v1.request import Request as VllmRequest

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import DraftMethod, EngineConfig, SpeculativeConfig
from mini_vllm.core.request import Request
from mini_vllm.release_rules import RELEASES, number
from mini_vllm.sampling_params import SamplingParams

MUST_BE_NONE = ("kv_transfer_config", "ec_transfer_config", "lora_config", "kv_events_config")
NOT_PARALLEL = ("pipeline", "data", "decode_context", "prefill_context")
VERSION = vllm.__version__.partition("+")[0]
NOT_SERVED = ("pooling_params", "prompt_embeds", "lora_request", "kv_transfer_params")
DRAFTERS_WITHOUT_BLOCKS = ("ngram", "suffix", "medusa", "mlp_speculator")


def engine_config(config: VllmConfig, kv_cache_config: KVCacheConfig, block_size: int, lineup: Lineup) -> EngineConfig:
    """Translate a vLLM engine's settings.

    Raises `ValueError`, naming the setting, if phases 1 to 5, 7 and 8 do not support it.

    If phase 14 is in the lineup, releases of vLLM after 0.13.0 get the decisions of 0.33.0.
    """
    for name in MUST_BE_NONE:
        if (value := getattr(config, name)) is not None:
            raise ValueError(f"{name} must be None with a learner's scheduler, got {value!r}")
    for way in NOT_PARALLEL:
        if (size := getattr(config.parallel_config, f"{way}_parallel_size")) != 1:
            raise ValueError(f"{way}_parallel_size must be 1 with a learner's scheduler, got {size}")
    layers = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    if [type(spec) for spec in layers] != [FullAttentionSpec]:
        kinds = ", ".join(type(spec).__name__ for spec in layers) or "no layer"
        raise ValueError(f"the model must use full attention in every layer, with one KV cache group; got {kinds}")
    if config.model_config.is_encoder_decoder or config.model_config.is_multimodal_model:
        raise ValueError(f"the model must be a text decoder, got {config.model_config.model!r}")
    scheduler = config.scheduler_config
    return EngineConfig(
        max_num_seqs=scheduler.max_num_seqs,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        long_prefill_token_threshold=scheduler.long_prefill_token_threshold,
        max_model_len=config.model_config.max_model_len,
        enable_chunked_prefill=scheduler.enable_chunked_prefill,
        enable_prefix_caching=bool(config.cache_config.enable_prefix_caching),
        policy=scheduler.policy,
        speculative_config=_speculative_config(config),
        async_scheduling=bool(scheduler.async_scheduling),
        block_size=block_size,
        num_gpu_blocks=kv_cache_config.num_blocks,
        vllm=RELEASES[lineup.year != "absent" and number(VERSION) > number(RELEASES[0])],
    )


def _speculative_config(config: VllmConfig) -> SpeculativeConfig | None:
    theirs: Any = config.speculative_config
    if theirs is None:
        return None
    if config.scheduler_config.async_scheduling:
        raise ValueError("async_scheduling must be off when speculative_config is used with a learner's scheduler")
    # Only one property matters here: whether drafts need separate slots.
    method: DraftMethod = "ngram" if theirs.method in DRAFTERS_WITHOUT_BLOCKS else "draft_model"
    return SpeculativeConfig(method, num_speculative_tokens=theirs.num_speculative_tokens)


def reason_to_refuse(request: VllmRequest) -> str | None:
    """Return why the learner's phases cannot serve a request, naming the setting, or None if they can."""
    asked = [name for name in NOT_SERVED if getattr(request, name) is not None]
    if request.mm_features:
        asked.append("mm_features")
    if request.use_structured_output:
        asked.append("structured_outputs")
    return f"a learner's scheduler serves text alone: the request must not have {', '.join(asked)}" if asked else None


def twin_of(request: VllmRequest) -> Request:
    """Return our engine's counterpart of a request that `reason_to_refuse` has accepted."""
    params = request.sampling_params
    # Later releases moved this field to the sampling parameters.
    eos_token_id = request.eos_token_id if hasattr(request, "eos_token_id") else params.eos_token_id
    return Request(
        request.request_id,
        list(request.prompt_token_ids),
        SamplingParams(
            max_tokens=request.max_tokens,
            min_tokens=params.min_tokens,
            stop_token_ids=tuple(params.stop_token_ids or ()),
            ignore_eos=params.ignore_eos,
            skip_reading_prefix_cache=request.skip_reading_prefix_cache,
        ),
        frozenset() if eos_token_id is None else frozenset({eos_token_id}),
        priority=request.priority,
        arrival_time=request.arrival_time,
        cache_salt=request.cache_salt,
    )
