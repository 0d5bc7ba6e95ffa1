"""Scheduling rules and settings that differ between releases of vLLM, each with its release and pull request.

This is the only module that knows about releases. Layers read a rule by its name (`electives/releases/`). The config
checks which settings a release supports. The page "What a year changed" is generated from the same fields.
"""

from dataclasses import Field, dataclass, field, fields
from typing import Any

RELEASES = ("0.13.0", "0.33.0")


def _rule(since: str, trace: str, before: str, now: str, why: str) -> Any:
    """Return a rule's dataclass field, False by default, with the arguments as metadata.

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
        "placeholders and drafts are cleared; the tokens are kept when they arrive and change no counter",
        "a crash, #48245",
    )
    images_have_places: bool = _rule(
        "0.19",
        "image_position_is_hashed",
        "a block's hash has the contents of its images",
        "it also has their places in the block",
        "the same image one token later was a wrong hit",
    )
    images_leave_in_update: bool = _rule(
        "0.20",
        "encoder_cache_is_released_in_the_update",
        "`schedule()` releases an image",
        "the update of the step that has computed it releases it",
        "the step in flight may still read it",
    )
    whole_sequence_must_fit: bool = _rule(
        "0.19",
        "reserve_full_isl_waits_for_the_whole_prompt",
        "a request is admitted if the blocks of its first chunk are free",
        "the blocks for all its known tokens must be free (`scheduler_reserve_full_isl`); for a window only those "
        "that it can hold at once (since 0.21)",
        "preemption thrash, #37307, #41064; a deadlock of windows, #39734",
    )
    freed_without_content_first: bool = _rule(
        "0.23",
        "freed_order_saves_a_prefix",
        "every freed block goes to the back of the free queue",
        "those without content go to the front, in the order in which they are freed",
        "windows flushed the prefix cache, #43447",
    )
    lookahead_at_admission: bool = _rule(
        "0.23",
        "eagle_lookahead_at_admission",
        "only running requests have slots for the drafter's next tokens",
        "a request that is admitted also gets them",
        "the reason was not found",
    )
    loads_leave_room: bool = _rule(
        "0.23",
        "gates33-remote-045",
        "a load that runs alongside the steps begins if its blocks are free",
        "it begins if they are free in addition to what all unfinished prompts and loads still need",
        "a deadlock, #44560, #45388",
    )
    single_tokens_are_padded: bool = _rule(
        "0.25",
        "full_hit_is_padded",
        "a request that is admitted with one token to compute gets 1 token",
        "alongside other requests, or with a hit (since 0.30), it gets 1 + k tokens, like every decode with drafts",
        "uniform CUDA graphs, #45237",
    )
    prefill_lookahead: bool = _rule(
        "0.28",
        "mtp_chunk_keeps_clear_of_the_end",
        "no drafter reads ahead of a chunk",
        "no chunk ends fewer tokens before the end of a prompt than the drafter reads ahead, and its blocks enter the "
        "cache that much later",
        "several MTP layers; the reason was not found",
    )
    windows_cache_the_end: bool = _rule(
        "0.30",
        "window_retention_loses_a_shared_prefix",
        "every full block of a sliding window enters the prefix cache",
        "only those before the end of the prompt and before a junction do (`prefix_cache_retention_interval`)",
        "useless blocks, #43447, #52216",
    )
    blocks_in_flight_stay: bool = _rule(
        "0.30",
        "async_victim_in_flight_ends_the_loop",
        "a victim's blocks are free at once, though a step in flight may write them",
        "with a connector they are free after that step's update, and its request cannot be a victim before that",
        "writes into blocks that had been reused, cf. #49675",
    )
    threshold_spares_lone_request: bool = _rule(
        "0.31",
        "threshold_ignored_when_alone",
        "`long_prefill_token_threshold` cuts every prompt",
        "it does not cut the prompt of the only request",
        "wasted budget, #57951",
    )
    block_holders_first: bool = _rule(
        "0.31",
        "loaded_requests_come_first",
        "a waiting request that holds blocks stands in the waiting queue",
        "it stands in a separate queue, which is looked at first",
        "a deadlock, cf. #57841, #57104",
    )
    hash_covers_next_token: bool = _rule(
        "0.33",
        "eagle_hash_covers_the_next_token",
        "the last block of a prefix hit is dropped for a drafter with a KV cache",
        "the hash of a block covers the token after it, so no block is dropped",
        "lost hits, #50438, #50897",
    )
    accepted_blocks_enter_in_update: bool = _rule(
        "0.33",
        "spec_accepted_blocks_enter_in_the_update",
        "blocks that accepted drafts have filled enter the prefix cache in the next `schedule()`",
        "they enter it in the update",
        "the last block of a request was lost",
    )
    loop_survives_self_preemption: bool = _rule(
        "0.33",
        "priority_self_preemption",
        "under `priority` a request that preempts itself ends the loop over the running ones",
        "the loop goes on",
        "an idle step, cf. #26765",
    )
    images_are_passed_over: bool = _rule(
        "0.33",
        "encoder_request_is_passed_over",
        "a waiting request whose image does not fit ends admission",
        "it is passed over",
        "the requests after it need not wait for it",
    )
    running_adapters_count: bool = _rule(
        "0.33",
        "lora_counts_running_requests",
        "`max_loras` counts the adapters of the requests in the step",
        "it counts those of all running requests",
        "a request that sits out can join the next batch",
    )


@dataclass(frozen=True, slots=True)
class ReleaseSetting:
    """A setting that 0.13.0 does not support, with the release that added it and its default."""

    since: str
    default: Any
    meaning: str


SETTINGS = {
    "scheduler_reserve_full_isl": ReleaseSetting("0.19", True, "whether all known tokens of a request must fit"),
    "watermark": ReleaseSetting("0.24", 0.0, "share of all blocks that stays free after an admission"),
    "prefill_schedule_interval": ReleaseSetting("0.33", 1, "steps from one with a part of a prompt to the next"),
    "max_num_active_seqs": ReleaseSetting("0.31", None, "most running requests, if below `max_num_seqs`"),
    "max_num_scheduled_tokens": ReleaseSetting("0.28", None, "budget of a step, if below `max_num_batched_tokens`"),
    "long_prefill_token_threshold_adaptive": ReleaseSetting(
        "0.31", False, "whether the threshold is at least a fair share"
    ),
    "prefix_cache_retention_interval": ReleaseSetting("0.23", 0, "which blocks of a sliding window are cached"),
    "num_speculative_tokens_per_batch_size": ReleaseSetting("0.24", None, "drafts by number of requests in a step"),
    "disable_lookahead_block_hashes": ReleaseSetting("0.33", False, "whether a hash covers only the block"),
    "disable_eagle_block_drop": ReleaseSetting("0.30", False, "whether the last hit block stays without such hashes"),
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
    """Raise `ValueError` if a setting of `SETTINGS` is not None and the release does not support it."""
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
