"""Scheduling rules and settings that differ between releases of vLLM, each with its release and pull request.

This is the only module that knows about releases. Layers read a rule by its name (`electives/releases/`). The config
checks which settings a release supports. The page "What a year changed" is generated from the same fields.
"""

from dataclasses import Field, dataclass, field, fields
from typing import Any

RELEASES = ("0.13.0", "0.33.0")


def _rule(since: str, trace: str, before: str, now: str, why: str) -> Any:
    """Return a dataclass field for a rule, with a default of False and the arguments as metadata.

    `since` is the release that changed the rule, and `trace` is a recording that shows the change. `before` and `now`
    describe the old and the new rule. `why` contains the reason and vLLM's pull requests, if they were found.
    """
    return field(default=False, metadata={"since": since, "trace": trace, "before": before, "now": now, "why": why})


@dataclass(frozen=True, slots=True)
class ReleaseRules:
    """The rules of one release. A field is False for 0.13.0's behaviour and True for the newer behaviour."""

    in_flight_is_forgotten: bool = _rule(
        "0.27",
        "async_reset_drops_what_is_in_flight",
        "a preempted request keeps the placeholders of the step in flight",
        "preemption clears the placeholders and drafts; tokens that arrive afterwards are kept, but change no counter",
        "the old rule caused a crash (#48245)",
    )
    images_have_places: bool = _rule(
        "0.19",
        "image_position_is_hashed",
        "a block's hash covers the contents of its images",
        "the hash also covers the images' positions in the block",
        "a request with the same image one token later got a wrong hit",
    )
    images_leave_in_update: bool = _rule(
        "0.20",
        "encoder_cache_is_released_in_the_update",
        "`schedule()` releases an image",
        "the update of the step that computed the image releases it",
        "the step in flight may still read the image",
    )
    whole_sequence_must_fit: bool = _rule(
        "0.19",
        "reserve_full_isl_waits_for_the_whole_prompt",
        "a request is admitted if enough blocks are free for its first chunk",
        "blocks for all of the request's known tokens must be free (`scheduler_reserve_full_isl`); a sliding window "
        "needs only the blocks that it can hold at once (since 0.21)",
        "the old rule caused preemption thrashing (#37307, #41064) and a deadlock with sliding windows (#39734)",
    )
    freed_without_content_first: bool = _rule(
        "0.23",
        "freed_order_saves_a_prefix",
        "every freed block goes to the back of the free queue",
        "freed blocks without content go to the front, in the order in which they are freed",
        "sliding windows flushed the prefix cache (#43447)",
    )
    lookahead_at_admission: bool = _rule(
        "0.23",
        "eagle_lookahead_at_admission",
        "only running requests get slots for the drafter's next tokens",
        "a request also gets these slots when it is admitted",
        "we did not find the reason",
    )
    loads_leave_room: bool = _rule(
        "0.23",
        "gates33-remote-045",
        "a load that runs alongside the steps begins if enough blocks are free for it",
        "the load begins only if its blocks are free in addition to those that all unfinished prompts and loads still "
        "need",
        "the old rule caused a deadlock (#44560, #45388)",
    )
    single_tokens_are_padded: bool = _rule(
        "0.25",
        "full_hit_is_padded",
        "a request with only one token to compute gets 1 token when it is admitted",
        "the request gets 1 + k tokens, like every decode with drafts, if others run alongside or if it has a hit "
        "(since 0.30)",
        "CUDA graphs become uniform (#45237)",
    )
    prefill_lookahead: bool = _rule(
        "0.28",
        "mtp_chunk_keeps_clear_of_the_end",
        "drafters do not read ahead of a chunk",
        "a chunk must leave at least as many prompt tokens as the drafter reads ahead, and its blocks enter the cache "
        "that many tokens later",
        "the rule was introduced along with support for several MTP layers; we did not find the reason",
    )
    windows_cache_the_end: bool = _rule(
        "0.30",
        "window_retention_loses_a_shared_prefix",
        "every full block of a sliding window enters the prefix cache",
        "only the blocks before the end of the prompt and before a junction enter the prefix cache "
        "(`prefix_cache_retention_interval`)",
        "the cache filled with useless blocks (#43447, #52216)",
    )
    blocks_in_flight_stay: bool = _rule(
        "0.30",
        "async_victim_in_flight_ends_the_loop",
        "a victim's blocks are free at once, although a step in flight may still write to them",
        "with a connector, the blocks are free after that step's update, and their request cannot be a victim until "
        "then",
        "steps wrote into blocks that had already been reused (cf. #49675)",
    )
    threshold_spares_lone_request: bool = _rule(
        "0.31",
        "threshold_ignored_when_alone",
        "`long_prefill_token_threshold` cuts every prompt",
        "the threshold does not cut the prompt of a lone request",
        "the old rule wasted budget (#57951)",
    )
    block_holders_first: bool = _rule(
        "0.31",
        "loaded_requests_come_first",
        "a waiting request that holds blocks is in the waiting queue",
        "the request is in a separate queue, which is checked first",
        "the old rule caused a deadlock (cf. #57841, #57104)",
    )
    hash_covers_next_token: bool = _rule(
        "0.33",
        "eagle_hash_covers_the_next_token",
        "if the drafter has a KV cache, the last block of a prefix hit is dropped",
        "a block's hash also covers the token after the block, so no block is dropped",
        "the old rule lost hits (#50438, #50897)",
    )
    accepted_blocks_enter_in_update: bool = _rule(
        "0.33",
        "spec_accepted_blocks_enter_in_the_update",
        "blocks that accepted drafts have filled enter the prefix cache in the next `schedule()`",
        "these blocks enter the prefix cache in the update",
        "the old rule lost a request's last block",
    )
    loop_survives_self_preemption: bool = _rule(
        "0.33",
        "priority_self_preemption",
        "under `priority`, a request that preempts itself ends the loop over the running requests",
        "the loop continues after a request preempts itself",
        "the old rule caused an idle step (cf. #26765)",
    )
    images_are_passed_over: bool = _rule(
        "0.33",
        "encoder_request_is_passed_over",
        "a waiting request whose image does not fit ends admission",
        "the request is passed over",
        "later requests do not have to wait for an image",
    )
    running_adapters_count: bool = _rule(
        "0.33",
        "lora_counts_running_requests",
        "`max_loras` counts the adapters of the requests in the step",
        "`max_loras` counts the adapters of all running requests",
        "a running request that sits out a step can join the next batch",
    )


@dataclass(frozen=True, slots=True)
class ReleaseSetting:
    """A setting that 0.13.0 does not support, with the release that added it and its default."""

    since: str
    default: Any
    meaning: str


SETTINGS = {
    "scheduler_reserve_full_isl": ReleaseSetting(
        "0.19", True, "whether blocks for all known tokens of a request must be free"
    ),
    "watermark": ReleaseSetting("0.24", 0.0, "share of all blocks that must stay free after an admission"),
    "prefill_schedule_interval": ReleaseSetting(
        "0.33", 1, "minimum distance, in steps, between two steps that compute parts of prompts"
    ),
    "max_num_active_seqs": ReleaseSetting(
        "0.31", None, "maximum number of running requests, if lower than `max_num_seqs`"
    ),
    "max_num_scheduled_tokens": ReleaseSetting(
        "0.28", None, "token budget of a step, if lower than `max_num_batched_tokens`"
    ),
    "long_prefill_token_threshold_adaptive": ReleaseSetting(
        "0.31", False, "whether the threshold is raised to a fair share of the budget"
    ),
    "prefix_cache_retention_interval": ReleaseSetting("0.23", 0, "which blocks of a sliding window are cached"),
    "num_speculative_tokens_per_batch_size": ReleaseSetting(
        "0.24", None, "number of drafts, depending on the number of requests in a step"
    ),
    "disable_lookahead_block_hashes": ReleaseSetting(
        "0.33", False, "whether a block's hash covers only the block itself"
    ),
    "disable_eagle_block_drop": ReleaseSetting(
        "0.30", False, "whether the last hit block is kept if hashes do not cover the next token"
    ),
}


def rules_of(release: str) -> ReleaseRules:
    """Return the rules of a release. Raises `ValueError`, listing the known releases, for any other release."""
    if release not in RELEASES:
        raise ValueError(f"vllm must be one of the releases {', '.join(RELEASES)}; got {release!r}")
    return ReleaseRules(**{one.name: number(one.metadata["since"]) <= number(release) for one in rules()})


def rules() -> tuple[Field[bool], ...]:
    """Return the fields of `ReleaseRules`; their metadata are `since`, `trace`, `before`, `now` and `why`."""
    return fields(ReleaseRules)


def change(name: str) -> str:
    """Describe what changed in the rule `name`, in which release and why. Raises `KeyError` for an unknown name."""
    rule = {one.name: one for one in rules()}[name].metadata
    return f"vLLM {RELEASES[0]}: {rule['before']}. Since {rule['since']}: {rule['now']}. Why: {rule['why']}."


def require_known(release: str, settings: object) -> None:
    """Raise `ValueError` if a setting in `SETTINGS` is not None and the release does not support it."""
    for name, setting in SETTINGS.items():
        value = getattr(settings, name, None)
        if value is not None and number(setting.since) > number(release):
            raise ValueError(
                f"vLLM {release} does not support {name}, which is set to {value!r}: it was added in {setting.since}. "
                f"Leave it as None, or choose a later release (vllm={RELEASES[-1]!r})"
            )


def number(release: str) -> tuple[int, int]:
    """Return a release's major and minor number, for comparing releases."""
    major, minor = release.split(".")[:2]
    return int(major), int(minor)
