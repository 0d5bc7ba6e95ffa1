"""The figures of a capacity as text: its title, its limits, and a table."""

from course.views.calculator.capacity import Capacity, Work
from course.views.figures import digits, memory, seconds
from course.views.text import counted, facts


def title(capacity: Capacity) -> str:
    setup = capacity.setup
    gpus = f"{setup.num_gpus} x {capacity.gpu.name}" if setup.num_gpus > 1 else capacity.gpu.name
    return f"{capacity.shape.name} with {8 * setup.bytes_per_number}-bit numbers on {gpus}"


def sentence(capacity: Capacity) -> str:
    """Return how many requests fit, and what limits the batch and a decode step."""
    if capacity.problem:
        return f"{capacity.problem[0].upper()}{capacity.problem[1:]}."
    setup, decode = capacity.setup, capacity.decode
    context = f"{setup.context_len:,} tokens"
    if not capacity.concurrency:
        return f"No request of {context} fits: there is room for K and V of {tokens_of_room(capacity):,} tokens."
    weights = capacity.shape.num_parameters_read * setup.bytes_per_number
    limit = "memory" if capacity.concurrency < setup.max_num_seqs else f"max_num_seqs, {setup.max_num_seqs}"
    pace = "bandwidth" if decode.intensity < capacity.ridge else "arithmetic"
    return (
        f"Room for {counted(capacity.concurrency, 'request')} of {context}; limit of the batch: {limit}. "
        f"A decode step of {counted(capacity.batch_size, 'request')} reads {memory(weights)} of weights and "
        f"{memory(decode.num_bytes - weights)} of K and V; limit of its speed: {pace}, at {digits(decode.intensity)} "
        f"operations per byte (ridge: {digits(capacity.ridge)})."
    )


def tokens_of_room(capacity: Capacity) -> int:
    return max(0, capacity.num_blocks - 1) * capacity.setup.block_size


def memory_parts(capacity: Capacity) -> list[tuple[str, int]]:
    parts = [
        ("weights", capacity.weight_bytes),
        ("activations", capacity.activation_bytes),
        ("workspace", capacity.workspace_bytes),
        ("K and V", capacity.kv_bytes),
    ]
    return [*parts, ("not used", max(0, capacity.memory_bytes - sum(size for _, size in parts)))]


def table(capacity: Capacity) -> list[tuple[str, str]]:
    setup, decode, prefill = capacity.setup, capacity.decode, capacity.prefill
    return [
        ("K and V per token", memory(capacity.kv_bytes_per_token)),
        (f"per block of {setup.block_size}", memory(capacity.kv_bytes_per_block)),
        ("blocks", f"{capacity.num_blocks:,}"),
        ("tokens of K and V", f"{tokens_of_room(capacity):,}"),
        (f"requests of {setup.context_len:,} tokens", f"{capacity.concurrency:,}"),
        ("saturation batch", f"{digits(capacity.saturation_batch)} tokens"),
        ("decode batch", counted(capacity.batch_size, "request") + ", if it fit" * (not capacity.concurrency)),
        ("its step, at least", seconds(decode.seconds)),
        ("decode, at most", per_second(decode)),
        ("each output", f"{digits(1 / decode.seconds)} tokens/s"),
        (f"prefill of {prefill.num_tokens:,}, at least", seconds(prefill.seconds)),
        ("prefill, at most", per_second(prefill)),
    ]


def per_second(work: Work) -> str:
    return f"{digits(work.tokens_per_second)} tokens/s"


def roof_text(capacity: Capacity) -> str:
    speeds = f"{digits(capacity.bandwidth / 1e12)} TB/s, {digits(capacity.peak_flops / 1e12)} TFLOP/s"
    return f"{speeds}, ridge at {digits(capacity.ridge)}"


def limit_text(capacity: Capacity) -> str:
    share = capacity.setup.gpu_memory_utilization
    return f"gpu_memory_utilization {share:.2f} = {memory(capacity.usable_bytes)}"


def text_alternative(capacity: Capacity) -> str:
    points = [
        (name, f"{digits(work.intensity)} operations per byte, {digits(work.flop_rate / 1e12)} TFLOP/s")
        for name, work in (("decode", capacity.decode), ("prefill", capacity.prefill))
    ]
    uses = ", ".join(f"{name} {memory(size)}" for name, size in memory_parts(capacity))
    bar = (f"memory {memory(capacity.memory_bytes)}", f"{uses}; {limit_text(capacity)}")
    lines = facts([bar, *table(capacity), ("roofline", roof_text(capacity)), *points])
    return "\n".join([title(capacity), lines, sentence(capacity)])
