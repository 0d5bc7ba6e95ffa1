"""Lists the fields that each release's recordings may have. An unknown field would indicate a rule that is not
replayed."""

from collections.abc import Iterator
from typing import Any

from mini_vllm.release_rules import RELEASES

GATES = ("grammar", "lora", "encoder", "connector", "window")
EVENTS = ("add", "abort", "compiled", "pause", "reset")
CONFIG_NAMES = (
    "max_num_seqs max_num_batched_tokens long_prefill_token_threshold max_model_len enable_chunked_prefill "
    "enable_prefix_caching policy block_size num_gpu_blocks async_scheduling spec eos_token_id"
).split()
COMPARED = (
    "added aborted scheduled total preempted evicted finished_sent free_after_schedule sampled "
    "aborted_before_update output finished free_after_update running_after waiting_after"
).split()
SOME_FIELDS = (  # present only if the scenario uses them
    "loading transfers held_after encodings_freed encoder_after skip_drafts drafts_wanted deferred_after reset_done"
).split()
_OLDEST = RELEASES[0]
_NEWER_CONFIG = (
    "version scheduler_reserve_full_isl watermark prefill_schedule_interval max_num_active_seqs "
    "max_num_scheduled_tokens long_prefill_token_threshold_adaptive"
).split()
_SPEC = ["method", "num_speculative_tokens"]
_NEWER_SPEC = ["lookahead_slots", "draft_slots", "prefill_lookahead", "last_hit_block", "per_batch_size"]
_REQUEST = (
    "prompt prompt_len max_tokens priority arrival_time ignore_eos stop_token_ids planned grammar adapter images "
    "stored load_steps lost_from send send_steps"
).split()
_STEP = [*COMPARED, *SOME_FIELDS, "step", "update_of", "drafts_given", "detail"]
_SHARE = "id kind computed n hit new_blocks blocks drafts encode sliding_blocks".split()


def unknown_field(line: dict[str, Any]) -> str | None:
    """Describe a trace's first field or release that is unknown here, or return None if all are known."""
    config = line["config"]
    release = config.get("version", _OLDEST)
    known_releases = f"the known releases are {', '.join(RELEASES)}"
    if release not in RELEASES:
        return f"field 'config.version' is {release!r}; {known_releases}"
    is_newer = release != _OLDEST
    for where, found, known in _parts(line, is_newer=is_newer):
        if unknown := sorted(found.keys() - known):
            return f"field '{where}.{unknown[0]}' is unknown in recordings of vLLM {release}; {known_releases}"
    return None


def _parts(line: dict[str, Any], *, is_newer: bool) -> Iterator[tuple[str, dict[str, Any], set[str]]]:
    config = line["config"]
    yield "config", config, {*CONFIG_NAMES, *GATES, *(_NEWER_CONFIG if is_newer else ())}
    yield "config.spec", config.get("spec") or {}, {*_SPEC, *(_NEWER_SPEC if is_newer else ())}
    window = {"tokens", "hybrid", "retention"} if is_newer else {"tokens", "hybrid"}
    yield "config.window", config.get("window") or {}, window
    for event in line["events"]:
        yield "events", event, {"step", "when", *(EVENTS if is_newer else EVENTS[:3])}
    for request_id, request in line["requests"].items():
        yield f"requests.{request_id}", request, set(_REQUEST)
    step_fields, share_fields = set(_STEP), set(_SHARE)
    for step in line["trace"]["steps"]:
        yield "trace.steps", step, step_fields
        for share in step["scheduled"]:
            yield "trace.steps.scheduled", share, share_fields
