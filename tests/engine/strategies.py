"""Random engine configs, small enough that memory is always short."""

from hypothesis import strategies as st

from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.cdiv import cdiv


@st.composite
def speculative_configs(draw: st.DrawFn) -> SpeculativeConfig:
    return SpeculativeConfig(
        num_speculative_tokens=draw(st.integers(1, 5)), prompt_lookup_min=1, adaptive=draw(st.booleans())
    )


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    """Small engines whose pool is slightly smaller or larger than the longest request needs."""
    max_model_len = draw(st.sampled_from([17, 24, 32]))
    block_size = draw(st.sampled_from([1, 2, 4, 8]))
    needed = cdiv(max_model_len - 1, block_size)
    chunked = draw(st.sampled_from([True, True, True, False]))
    budget = draw(st.sampled_from([1, 4, 10, 16, 40]))
    return EngineConfig(
        max_model_len=max_model_len,
        block_size=block_size,
        num_gpu_blocks=max(2, 1 + needed + draw(st.integers(-1, max(1, needed // 2)))),
        max_num_batched_tokens=budget if chunked else max(budget, max_model_len),
        max_num_seqs=draw(st.sampled_from([1, 2, 4, 6])),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 2, 5])),
        enable_chunked_prefill=chunked,
        enable_prefix_caching=draw(st.sampled_from([True, True, True, False])),
        policy=draw(st.sampled_from(["fcfs", "priority"])),
        speculative_config=draw(st.none() | speculative_configs()),
        async_scheduling=draw(st.booleans()),
        admission_guard=draw(st.sampled_from([False, False, True])),
        check_invariants=True,
    )
