"""How much memory there is for the KV cache."""

import psutil
import torch

from mini_vllm.config import EngineConfig
from mini_vllm.model.loading import LoadedModel
from mini_vllm.model.steps import RunnerSteps


def memory_of(device: torch.device) -> tuple[int, int]:
    """Return (total, free) bytes of the GPU, or of the main memory for the CPU."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return total, free
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def size_kv_cache(config: EngineConfig, loaded: LoadedModel, steps: RunnerSteps) -> int:
    """Return the number of blocks, null block included: what fits, but no more than could ever be used."""
    bytes_per_number = torch.empty((), dtype=loaded.dtype).element_size()
    block_bytes = steps.kv_block_bytes(
        loaded.num_layers, config.block_size, loaded.num_kv_heads, loaded.head_dim, bytes_per_number
    )
    total, free = memory_of(loaded.device)
    fitting = steps.num_blocks_that_fit(total, free, config.gpu_memory_utilization, block_bytes)
    longest = config.max_model_len or loaded.max_model_len
    useful = config.max_num_seqs * -(-longest // config.block_size) + 1
    return min(fitting, useful)
