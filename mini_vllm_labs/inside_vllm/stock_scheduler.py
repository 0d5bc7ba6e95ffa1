"""Builds the stock scheduler of any vLLM release from 0.13.0 on, without a model, a device or a network.

Only vLLM's environment can import it. The configuration objects are invented, but vLLM's own code makes every decision.
`PYTHONHASHSEED=0` must be set to get the same block hashes in every run.
"""

import inspect
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from copy import copy
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}

import torch
import vllm
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.utils.hashing import sha256
from vllm.v1 import kv_cache_interface as kv
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from mini_vllm.release_rules import SETTINGS, number

NEWER_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
VERSION = vllm.__version__.partition("+")[0]
PLAIN = (
    "max_num_seqs max_num_batched_tokens max_model_len long_prefill_token_threshold enable_chunked_prefill policy "
    "async_scheduling"
).split()
TINY_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "max_position_embeddings": 1 << 20,
    "vocab_size": 2048,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float16",
    "rms_norm_eps": 1e-6,
}
logging.disable(logging.WARNING)
init_none_hash(sha256)


class StandInSpeculation:
    """Stands in for a `SpeculativeConfig` when the scheduler queries it. A real `SpeculativeConfig` needs a draft model
    on disk.

    Unknown queries return False or None.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.method = spec["method"]
        self.num_speculative_tokens = spec["num_speculative_tokens"]
        self.max_num_new_slots_for_drafting = spec["draft_slots"]
        self.disable_lookahead_block_hashes = spec["last_hit_block"] != "hashed"
        self.disable_eagle_block_drop = spec["last_hit_block"] == "kept"
        rows = spec.get("per_batch_size")
        self.num_speculative_tokens_per_batch_size = [tuple(row) for row in rows] if rows else None

    def use_eagle(self) -> bool:
        return self.method in ("eagle", "mtp")

    needs_eagle_block_drop = use_eagle

    def use_eagle_block_drop(self) -> bool:
        return self.use_eagle() and not self.disable_eagle_block_drop

    def uses_draft_model(self) -> bool:
        return bool(self.method == "draft_model")

    def use_multi_module_mtp(self) -> bool:
        return bool(self.method == "mtp" and self.num_speculative_tokens > 1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return (lambda: False) if name.startswith(("use_", "uses_", "needs_")) else None


class StandInLoRA:
    """Stands in for a `LoRAConfig` when the scheduler queries it."""

    def __init__(self, max_loras: int) -> None:
        self.max_loras = max_loras


def make_scheduler(config: Mapping[str, Any]) -> Any:
    """Build the scheduler of a recording's `config`. If a newer setting is not changed from its default, this release's
    default is used.

    Raises `ValueError` for a setting that this release does not support, or with vLLM's reason for rejecting the
    configuration.
    """
    limits = {name: config[name] for name in PLAIN} | _changed(config)
    cache_config = CacheConfig(block_size=config["block_size"], enable_prefix_caching=config["enable_prefix_caching"])
    settings = SchedulerConfig(**limits, is_encoder_decoder=False)
    os.environ.pop(NEWER_RUNNER, None)
    vllm_config = VllmConfig(
        scheduler_config=settings, cache_config=cache_config, model_config=_model_config(config["max_model_len"])
    )
    # Later releases choose the newer runner for a plain model on a GPU, but 0.30's VllmConfig rejects it without
    # Triton.
    if hasattr(VllmConfig, "use_v2_model_runner"):
        os.environ[NEWER_RUNNER] = "1"
    # The hooks of vLLM's CPU platform change some of these settings.
    for name in ("max_num_batched_tokens", "enable_chunked_prefill", "async_scheduling"):
        setattr(vllm_config.scheduler_config, name, config[name])
    vllm_config.cache_config.enable_prefix_caching = config["enable_prefix_caching"]
    vllm_config.cache_config.num_gpu_blocks = config["num_gpu_blocks"]
    if config["spec"]:
        vllm_config.speculative_config = StandInSpeculation(_with_newer_fields(config["spec"]))
        if getattr(settings, "max_num_scheduled_tokens", 0) is None:
            settings.max_num_scheduled_tokens = config["max_num_batched_tokens"]
    if config.get("lora"):
        vllm_config.lora_config = StandInLoRA(**config["lora"])
    kind = AsyncScheduler if config["async_scheduling"] else Scheduler
    sizes = {"block_size": config["block_size"]}
    if "hash_block_size" in inspect.signature(Scheduler.__init__).parameters:
        sizes["hash_block_size"] = config["block_size"]
    scheduler = kind(
        vllm_config=vllm_config,
        kv_cache_config=_kv_cache_config(config),
        log_stats=False,
        structured_output_manager=StructuredOutputManager(vllm_config),
        **sizes,
    )
    if config.get("encoder"):  # vLLM computes both from a multimodal model, which would require files on disk
        scheduler.max_num_encoder_input_tokens = config["encoder"]["budget"]
        scheduler.encoder_cache_manager = EncoderCacheManager(cache_size=config["encoder"]["cache"])
    return scheduler


def make_request(request_id: str, prompt: list[int], described: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """Build the request that a recording describes."""
    params = SamplingParams(
        max_tokens=described["max_tokens"],
        ignore_eos=described["ignore_eos"],
        stop_token_ids=described["stop_token_ids"] or None,
        temperature=0.0,
        structured_outputs=StructuredOutputsParams(choice=["any"]) if described.get("grammar") else None,
    )
    options: dict[str, Any] = {}
    if "eos_token_id" in inspect.signature(Request.__init__).parameters:
        options["eos_token_id"] = config["eos_token_id"]
    else:  # later releases moved this field to the sampling parameters
        params._eos_token_id = None if params.ignore_eos else config["eos_token_id"]
    if adapter := described.get("adapter"):
        options["lora_request"] = LoRARequest(f"adapter{adapter}", adapter, f"adapter{adapter}")
    if images := described.get("images"):
        options["mm_features"] = [
            MultiModalFeatureSpec(None, "image", content, PlaceholderRange(offset, length))
            for content, offset, length in images
        ]
    return Request(
        request_id=request_id,
        prompt_token_ids=prompt,
        sampling_params=params,
        pooling_params=None,
        arrival_time=described["arrival_time"],
        priority=described["priority"],
        # As in vLLM's engine, hashes are not computed if nothing reads them.
        block_hasher=block_hasher(config) if config["enable_prefix_caching"] else None,
        **options,
    )


def block_hasher(config: Mapping[str, Any]) -> Any:
    """Return the function that hashes a request's blocks; after 0.32, a block's hash may also cover tokens that follow
    it."""
    spec = _with_newer_fields(config["spec"]) if config["spec"] else None
    lookahead = spec["prefill_lookahead"] if spec and spec["last_hit_block"] == "hashed" else 0
    return _block_hasher(config["block_size"], lookahead)


@cache
def _block_hasher(block_size: int, lookahead: int) -> Any:
    takes_lookahead = len(inspect.signature(get_request_block_hasher).parameters) > 2
    return get_request_block_hasher(block_size, sha256, *([lookahead] if takes_lookahead else []))


def _changed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newer settings of `SchedulerConfig` that differ from their defaults.

    Raises `ValueError` for any newer setting that this release does not support, including settings for windows and
    drafts.
    """
    spec, window = config["spec"] or {}, config.get("window") or {}
    given = {name: config[name] for name in SETTINGS if name in config}
    # null stands for the first releases' rules
    given["prefix_cache_retention_interval"] = window.get("retention", 0) or 0
    given["num_speculative_tokens_per_batch_size"] = spec.get("per_batch_size")
    given["disable_eagle_block_drop"] = spec.get("last_hit_block") == "kept"
    changed = {name: value for name, value in given.items() if value != SETTINGS[name].default}
    for name in changed:
        if number(SETTINGS[name].since) > number(VERSION):
            raise ValueError(f"vLLM {VERSION} does not support {name}, which was added in {SETTINGS[name].since}")
    return {name: value for name, value in changed.items() if name in config}


def _with_newer_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Add the fields that 0.13.0's recordings lack, with the values that later releases derive."""
    lookahead = int(spec["method"] == "eagle")
    return {"draft_slots": 0, "prefill_lookahead": lookahead, "last_hit_block": "hashed", **spec}


def _kv_cache_config(config: Mapping[str, Any]) -> Any:
    sizes = {"block_size": config["block_size"], "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    groups = [kv.KVCacheGroupSpec(["full"], kv.FullAttentionSpec(**sizes))]
    options = {}
    if window := config.get("window"):
        sliding = kv.KVCacheGroupSpec(["sliding"], kv.SlidingWindowSpec(**sizes, sliding_window=window["tokens"]))
        groups = [*groups, sliding] if window["hybrid"] else [sliding]
    name = "prefix_cache_retention_interval"
    if name in {field.name for field in fields(kv.KVCacheConfig)}:
        interval = window.get("retention", 0) if window else 0
        options[name] = getattr(CacheConfig(), name, None) if interval == 0 else interval
    return kv.KVCacheConfig(config["num_gpu_blocks"], kv_cache_tensors=[], kv_cache_groups=groups, **options)


def _model_config(max_model_len: int) -> Any:
    config = copy(_tiny_model_config())
    config.max_model_len = max_model_len
    return config


@cache
def _tiny_model_config() -> Any:
    """Build the configuration of a tiny text model, which takes vLLM 0.2 seconds, or 20 seconds the first time."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(TINY_MODEL), encoding="utf-8")
        return ModelConfig(folder, tokenizer=folder, dtype="float16", seed=0, skip_tokenizer_init=True)
