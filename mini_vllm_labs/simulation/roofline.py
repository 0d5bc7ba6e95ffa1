"""The limits of a model on a GPU: bytes, operations, memory, and concurrency. `CostModel` computes a step's time.

Several GPUs (`num_gpus`, tensor parallel) count as one with `num_gpus` times the memory, bandwidth and compute rate;
communication between them is ignored.
"""

from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.simulation.gpus import Gpu
from mini_vllm_labs.simulation.model_shapes import ModelShape

BYTES_PER_NUMBER = 2  # bfloat16
WORKSPACE_BYTES = 1848 * 2**20
"""GPU memory besides weights, activations, K and V: context, libraries, logits, CUDA graphs. A rough guess: with the
activations of 2,048 tokens of Llama-3.1-8B it makes 2 GiB. An engine measures both at startup."""


def weight_bytes(model: ModelShape, bytes_per_number: int = BYTES_PER_NUMBER) -> int:
    return model.num_parameters * bytes_per_number


def kv_bytes_per_token(model: ModelShape, bytes_per_number: int = BYTES_PER_NUMBER) -> int:
    """Return the bytes that one token's K and V take in all layers."""
    return 2 * model.num_layers * model.num_kv_heads * model.head_dim * bytes_per_number


def kv_bytes_per_block(model: ModelShape, block_size: int = 16, bytes_per_number: int = BYTES_PER_NUMBER) -> int:
    """Return the size of one block in bytes: K and V of `block_size` tokens in all layers."""
    return block_size * kv_bytes_per_token(model, bytes_per_number)


def activation_bytes(model: ModelShape, num_tokens: int, num_gpus: int = 1) -> int:
    """Return the peak bytes of activations in a step of `num_tokens` tokens, without its logits.

    The peak is in an MLP: the residual, its input, gate and up, and their product. A layer's activations are freed
    before the next layer's, so the number of layers does not matter. Every GPU holds all of the residual and the MLP's
    input, and its share of the other tensors. Activations are 16 bits wide, regardless of the precision of the weights.
    """
    return num_tokens * (2 * num_gpus * model.hidden_size + 3 * model.intermediate_size) * BYTES_PER_NUMBER


def num_kv_blocks(
    gpu: Gpu,
    model: ModelShape,
    *,
    num_gpus: int = 1,
    block_size: int = 16,
    gpu_memory_utilization: float = 0.9,
    bytes_per_number: int = BYTES_PER_NUMBER,
    max_num_batched_tokens: int = 2048,
) -> int:
    """Return how many blocks, including the null block, fit after weights, activations and workspace.

    Raises `ValueError`, with the bytes needed and available, if fewer than two fit.
    """
    usable = int(gpu.memory_bytes * num_gpus * gpu_memory_utilization)
    weights, workspace = weight_bytes(model, bytes_per_number), WORKSPACE_BYTES * num_gpus
    activations = activation_bytes(model, max_num_batched_tokens, num_gpus)
    num_blocks = (usable - weights - activations - workspace) // kv_bytes_per_block(model, block_size, bytes_per_number)
    if num_blocks < 2:
        raise ValueError(
            f"{model.name} does not fit on {num_gpus} x {gpu.name}: its weights take {weights / 2**30:.1f} GiB, the "
            f"activations take {activations / 2**30:.1f}, the workspace takes {workspace / 2**30:.1f}, and only "
            f"{usable / 2**30:.1f} GiB may be used (gpu_memory_utilization {gpu_memory_utilization}). Choose a larger "
            "GPU or use more of them"
        )
    return num_blocks


def max_concurrency(num_blocks: int, context_len: int, block_size: int = 16) -> int:
    """Return how many requests of `context_len` tokens fit at once in `num_blocks` blocks, one of which is null."""
    return (num_blocks - 1) // cdiv(context_len, block_size)


def saturation_batch(gpu: Gpu, bytes_per_number: int = BYTES_PER_NUMBER) -> float:
    """Return the tokens per step above which computing a matrix product takes longer than reading its weights.

    A weight of b bytes takes b / bandwidth seconds to read and 2 / peak seconds per token to use. With two bytes, the
    result is peak / bandwidth tokens for every model.
    """
    return bytes_per_number * gpu.peak_flops / (2 * gpu.bandwidth)


def flops_per_token(model: ModelShape, context_len: int) -> int:
    """Return the operations for one token that attends to `context_len` tokens, including its logits."""
    return (
        2 * (model.num_matrix_parameters + model.num_embedding_parameters)
        + attention_flops_per_pair(model) * context_len
    )


def attention_flops_per_pair(model: ModelShape) -> int:
    """Return the operations for one (query, key) pair in all layers: computing a score, and adding the weighted V."""
    return 4 * model.num_layers * model.num_heads * model.head_dim
