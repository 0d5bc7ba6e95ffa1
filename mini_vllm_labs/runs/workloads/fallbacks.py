"""Changes a small configuration so that a lineup with absent phases can run it."""

from dataclasses import replace

from mini_vllm import EngineConfig, Lineup


def whole_prompts(budget: int) -> str:
    """Return the note in which a benchmark says that prompts cannot be split."""
    return f"Phase 5 is absent: whole prompts only. The budget of {budget:,} tokens per step holds the longest."


def make_possible(config: EngineConfig, lineup: Lineup) -> tuple[EngineConfig, list[str]]:
    """Return settings that let `lineup` serve a full engine's workload, and notes on absent phases."""
    remarks = []
    if lineup.kv_cache == "absent":
        remarks.append("Phase 2 is absent: a request reserves a slot for every token it may ever have.")
        if lineup.preemption == "absent":
            remarks.append("Phase 3 is absent: no request can be preempted, and with reservations none has to be.")
    elif lineup.preemption == "absent":
        config = replace(config, num_gpu_blocks=4 * (config.num_gpu_blocks or 0))
        remarks.append("Phase 3 is absent: no request can be preempted, so by default the pool is four times as large.")
    if lineup.prefix_cache == "absent":
        remarks.append("Phase 4 is absent: shared prefixes are computed for every prompt.")
    if lineup.chunking == "absent":
        assert config.max_model_len is not None
        config = replace(config, max_num_batched_tokens=config.max_model_len, long_prefill_token_threshold=0)
        remarks.append("Phase 5 is absent: whole prompts only, so the budget is as large as max_model_len.")
    return config, remarks
