"""What the pages see of an engine: asked where the engine is, in the middle of its steps."""

from dataclasses import dataclass
from typing import Any

from mini_vllm.engine.llm_engine import LLMEngine
from serving.live.bills import Bill
from serving.live.chunks import Chunk
from serving.live.recent_steps import RecentSteps
from serving.observed import observer_of


@dataclass(frozen=True, slots=True)
class Seen:
    """The numbers of the steps that are kept, and the requests that have arrived since the last was planned."""

    newest: int = -1
    oldest: int = 0
    num_arrived: int = 0


def seen_of(engine: LLMEngine) -> Seen:
    """Return what changes from step to step."""
    recent = observer_of(engine, RecentSteps)
    return Seen(recent.chunks.num_steps - 1, recent.chunks.oldest, recent.num_arrived)


def facts_of(engine: LLMEngine) -> dict[str, Any]:
    """Return the engine's constants, which a picture needs."""
    config, kv = engine.config, engine.scheduler.kv
    speculative = config.speculative_config
    return {
        "num_blocks": kv.num_usable_blocks,
        "block_size": kv.block_size,
        "token_budget": config.max_num_batched_tokens,
        "most_running": config.max_num_seqs,
        "prefix_caching": config.enable_prefix_caching,
        "num_drafts": speculative.num_speculative_tokens if speculative else 0,
    }


def steps_since(engine: LLMEngine, step: int) -> list[Chunk]:
    """Return the steps from `step` on, and let the next one say which blocks are free and cached."""
    recent = observer_of(engine, RecentSteps)
    recent.want_pool()
    return recent.chunks.since(step)


def bill_of(engine: LLMEngine, request_id: str) -> Bill | None:
    """Return the bill of a request that has ended; None if it has not, or long ago."""
    return observer_of(engine, RecentSteps).bills.get(request_id)
