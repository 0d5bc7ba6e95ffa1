"""What every server and the offline engine have alike."""

from bench.backend import Settings
from mini_vllm.config import EngineConfig

BLOCK_SIZE = 16


def engine_config(settings: Settings) -> EngineConfig:
    """Return the engine's settings: those that the peers have, too."""
    return EngineConfig(
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        block_size=BLOCK_SIZE,
        num_gpu_blocks=settings.kv_cache_tokens // BLOCK_SIZE + 1,
        dtype=settings.dtype,
    )


def thread_environment(settings: Settings) -> dict[str, str]:
    """Return the environment that sets a server's compute threads; with 0 threads every server makes its own choice."""
    return {"OMP_NUM_THREADS": str(settings.num_threads)} if settings.num_threads else {}
