"""Encodes results of a notebook's runs as JSON: decisions, tokens and simulated times, but nothing specific to the
machine."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.outputs import CompletionOutput, RequestMetrics, RequestOutput
from mini_vllm_labs.fresh.jobs import ChatRun, VllmRun, WorkloadRun
from mini_vllm_labs.notebook.chain import HashBlocks
from mini_vllm_labs.notebook.electives import HeldBlocks, MaskedText
from mini_vllm_labs.notebook.layout import Layout
from mini_vllm_labs.pictures.image_chunks import ImageStep
from mini_vllm_labs.pictures.paged_batch.flat_step import FlatStep
from mini_vllm_labs.pictures.policy_comparison.comparison import PolicyResult
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo
from mini_vllm_labs.runs.workloads.ablation import LineupResult
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.summary import Spread, Summary

CLASSES = (
    *(WorkloadRun, VllmRun, ChatRun, Recording, RunInfo, RequestOutput, CompletionOutput, RequestMetrics, Lineup),
    *(HashBlocks, Layout, FlatStep, LineupResult, Served, PolicyResult, TimedRequest),
    *(Summary, Spread, MaskedText, ImageStep, HeldBlocks),
)
BY_NAME: dict[str, Any] = {kind.__name__: kind for kind in CLASSES}
DECIMALS = 7
TAG = "!"


def to_json(value: object) -> Any:
    """Encode a result for `json.dumps`. Raises `TypeError` for a type that is not recorded."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return round(value, DECIMALS)
        case list():
            return [to_json(item) for item in value]
        case tuple():
            return {TAG: "tuple", "items": [to_json(item) for item in value]}
        case range():
            return {TAG: "range", "stop": value.stop}
        case bytes():
            return {TAG: "bytes", "hex": value.hex()}
        case dict() if all(isinstance(key, str) and key != TAG for key in value):
            return {key: to_json(item) for key, item in value.items()}
        case dict():
            return {TAG: "dict", "items": [[to_json(key), to_json(item)] for key, item in value.items()]}
    name, value = type(value).__name__, lean(value)
    if name not in BY_NAME or not is_dataclass(value):
        raise TypeError(f"cannot record a {name}; only {', '.join(BY_NAME)} and plain values can be recorded")
    return {TAG: name} | {field: to_json(item) for field, item in chosen_fields(value).items()}


def chosen_fields(value: Any) -> dict[str, Any]:
    """Return a dataclass's fields keyed by name, omitting fields at their default so that new fields leave records
    unchanged."""
    found = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
    return {name: now for name, (now, default) in found.items() if now != default}


def lean(value: object) -> object:
    """Remove data that pictures do not need: simulated requests' prompts, all of a stage's decisions, and times."""
    match value:
        case TimedRequest():
            return replace(value, prompt_token_ids=range(value.num_prompt_tokens))
        case LineupResult():
            return replace(value, decisions=[], token_ids={})
        case RequestMetrics():
            counts = value.num_output_tokens, value.num_preemptions, value.num_cached_tokens
            return RequestMetrics(0.0, None, None, None, None, *counts)
    return value


def from_json(encoded: Any) -> Any:
    if isinstance(encoded, list):
        return [from_json(item) for item in encoded]
    if not isinstance(encoded, dict):
        return encoded
    match encoded.get(TAG):
        case None:
            return {key: from_json(item) for key, item in encoded.items()}
        case "tuple":
            return tuple(from_json(item) for item in encoded["items"])
        case "dict":
            return {from_json(key): from_json(item) for key, item in encoded["items"]}
        case "range":
            return range(encoded["stop"])
        case "bytes":
            return bytes.fromhex(encoded["hex"])
        case name:
            return BY_NAME[name](**{field: from_json(item) for field, item in encoded.items() if field != TAG})
