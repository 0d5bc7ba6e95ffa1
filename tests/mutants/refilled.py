"""One mistake for each function that returns a container: every call refills the same container.

Two cases are deliberately left out: `PagedKVCacheManager.block_ids`, whose table belongs to the pool, and answers that
cannot change.
"""

FUNCTIONS: dict[int, tuple[str, ...]] = {
    1: ("schedule_step", "update_from_output"),
    2: (
        "FreeKVCacheBlockQueue.block_ids",
        "BlockPool.get_new_blocks",
        *(f"PagedKVCacheManager.{name}" for name in ("get_computed_blocks", "allocate_slots")),
        *(f"PagedKVCacheManager.{name}" for name in ("free_block_ids", "ref_counts")),
    ),
    4: ("HashPrefixCache.find_longest_cache_hit", "HashPrefixCache.cached_blocks"),
    6: (
        *("flatten_tokens", "compute_slot_mapping", "pad_block_tables", "select_logits_rows"),
        *("paged_attention", "sample"),
    ),
    7: (
        *("propose_by_lookup", "select_logits_rows", "accept_drafts", "rejection_sample"),
        *("SpeculativeScheduling.usable_hit_blocks", "SpeculativeScheduling.schedule_drafts"),
    ),
    8: ("correct_share",),
    9: (
        *("build_dfa", "RegexTokenMasks.next_states", "RegexTokenMasks.bitmask_row"),
        "RegexGrammar.validate_tokens",
    ),
    10: ("BlockStoreConnector.build_connector_meta", "BlockStoreWorker.start_step"),
    11: ("schedule_encoder_inputs",),
    12: ("find_sliding_hit", "find_common_hit", "sliding_attention"),
    13: ("LeastSlackFirst.victims",),
    14: ("order_freed", "requests_left", "reachable_blocks"),
}
REFILLED = """

def _refilled(function):
    from copy import deepcopy

    kept = []

    def fill(old, new):
        if isinstance(old, (list, dict, set)):
            old.clear()
            (old.extend if isinstance(old, list) else old.update)(new)
        elif isinstance(old, tuple):
            return tuple(map(fill, old, new))
        elif hasattr(old, "resize_"):
            old.resize_(new.shape).copy_(new)
        elif hasattr(old, "tolist"):
            old[...] = new
        elif hasattr(old, "__dataclass_fields__"):
            for name in old.__dataclass_fields__:
                object.__setattr__(old, name, fill(getattr(old, name), getattr(new, name)))
        else:
            return new
        return old

    def again(*positional, **named):
        found = function(*positional, **named)
        if found is None:
            return None
        kept[:] = [fill(kept[0], found) if kept else deepcopy(found)]
        return kept[0]

    return again


{name} = _refilled({name})
"""


def refilled(phase: int, text: str) -> dict[str, str]:
    """Return the name and the text of each mistake in a phase."""
    names = FUNCTIONS.get(phase, ())
    return {f"{name} fills one container again in each call": text + REFILLED.replace("{name}", name) for name in names}
