"""Maps an engine's settings to elective phases; no other module knows this mapping."""

from dataclasses import replace

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.release_rules import RELEASES

SPECULATION, ASYNC, KV_TRANSFER, GATES, YEAR = 7, 8, 10, 11, 14


def electives_of(config: EngineConfig) -> frozenset[int]:
    """Return the electives that an engine needs in order to accept a config."""
    used = {
        SPECULATION: config.speculative_config is not None,
        ASYNC: config.async_scheduling,
        KV_TRANSFER: config.kv_transfer_config is not None,
        GATES: config.max_loras is not None or config.encoder_cache_size is not None,
        YEAR: config.vllm != RELEASES[0],
    }
    return frozenset(phase for phase, is_used in used.items() if is_used)


def with_electives(config: EngineConfig, lineup: Lineup, drafts: SpeculativeConfig) -> EngineConfig:
    """Turn on a lineup's electives in a config; phase 7 gets `drafts`, and phase 14 gets the newest release."""
    return replace(
        config,
        speculative_config=None if lineup.speculation == "absent" else drafts,
        async_scheduling=lineup.async_scheduling != "absent",
        # The newest release's rules apply to blocks.
        vllm=config.vllm if "absent" in (lineup.year, lineup.kv_cache) else RELEASES[-1],
    )
