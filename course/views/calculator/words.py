"""A capacity in words: its title, what limits it, and every figure as text."""

from course.views.calculator.capacity import Capacity, Work
from course.views.figures import digits, memory, seconds


def title(capacity: Capacity) -> str:
    """Return what runs on what."""
    setup = capacity.setup
    gpus = f"{setup.num_gpus} x {capacity.gpu.name}" if setup.num_gpus > 1 else capacity.gpu.name
    return f"{capacity.shape.name} with {8 * setup.bytes_per_number}-bit numbers on {gpus}"


def sentence(capacity: Capacity) -> str:
    """Return how many find room, and what a decode step waits for."""
    if capacity.problem:
        return f"{capacity.problem[0].upper()}{capacity.problem[1:]}."
    context = f"{capacity.setup.context_len:,} tokens"
    if not capacity.concurrency:
        return f"Not even one request of {context} finds room: {tokens_of_room(capacity):,} tokens of K and V fit."
    decode = capacity.decode
    weights = capacity.shape.num_parameters_read * capacity.setup.bytes_per_number
    limit = "bandwidth" if decode.intensity < capacity.ridge else "arithmetic"
    return (
        f"{fits(capacity)} A decode step of {requests(capacity.batch_size)} reads {memory(weights)} of the weights and "
        f"{memory(decode.num_bytes - weights)} of K and V. The {limit} sets the pace: {digits(decode.intensity)} "
        f"operations per byte, where the GPU could do {digits(capacity.ridge)}."
    )


def fits(capacity: Capacity) -> str:
    """Return how many requests find room, and whether that or `max_num_seqs` limits the batch."""
    room = f"Room for {requests(capacity.concurrency)} of {capacity.setup.context_len:,} tokens"
    asked = capacity.setup.max_num_seqs
    if capacity.concurrency < asked:
        return f"{room}, so memory limits the batch and not max_num_seqs ({asked})."
    return f"{room}; max_num_seqs lets {asked} run."


def requests(count: int) -> str:
    """Return a number of requests."""
    return "1 request" if count == 1 else f"{count:,} requests"


def tokens_of_room(capacity: Capacity) -> int:
    """Return the tokens whose K and V fit. The null block holds none."""
    return max(0, capacity.num_blocks - 1) * capacity.setup.block_size


def memory_parts(capacity: Capacity) -> list[tuple[str, int]]:
    """Return what the memory is for, in the order of the bar."""
    rest = capacity.memory_bytes - capacity.weight_bytes - capacity.workspace_bytes - capacity.kv_bytes
    return [
        ("weights", capacity.weight_bytes),
        ("workspace", capacity.workspace_bytes),
        ("K and V", capacity.kv_bytes),
        ("not used", max(0, rest)),
    ]


def facts(capacity: Capacity) -> list[tuple[str, str]]:
    """Return the figures beside the roofline, as (name, value)."""
    setup = capacity.setup
    return [
        ("K and V per token", memory(capacity.kv_bytes_per_token)),
        (f"per block of {setup.block_size}", memory(capacity.kv_bytes_per_block)),
        ("blocks", f"{capacity.num_blocks:,}"),
        ("tokens of K and V", f"{tokens_of_room(capacity):,}"),
        (f"requests of {setup.context_len:,} tokens", f"{capacity.concurrency:,}"),
        ("saturation batch", f"{digits(capacity.saturation_batch)} tokens"),
        *speeds(capacity),
    ]


def speeds(capacity: Capacity) -> list[tuple[str, str]]:
    """Return the bounds on decode and prefill."""
    decode, prefill = capacity.decode, capacity.prefill
    return [
        ("decode batch", requests(capacity.batch_size) + ("" if capacity.concurrency else ", if it fit")),
        ("its step, at least", seconds(decode.seconds)),
        ("decode, at most", per_second(decode)),
        ("each answer, at most", f"{digits(1 / decode.seconds)} tokens/s"),
        (f"prefill of {prefill.num_tokens:,}, at least", seconds(prefill.seconds)),
        ("prefill, at most", per_second(prefill)),
    ]


def per_second(work: Work) -> str:
    """Return the tokens per second at most."""
    return f"{digits(work.tokens_per_second)} tokens/s"


def twin(capacity: Capacity) -> str:
    """Return every figure of the picture as text."""
    setup = capacity.setup
    share = f"gpu_memory_utilization {setup.gpu_memory_utilization:.2f}: {memory(capacity.usable_bytes)}"
    bar = ", ".join(f"{name} {memory(size)}" for name, size in memory_parts(capacity))
    roof = f"{digits(capacity.bandwidth / 1e12)} TB/s, {digits(capacity.peak_flops / 1e12)} TFLOP/s in bfloat16"
    points = [
        f"{name}: {digits(work.intensity)} operations per byte, {digits(work.flop_rate / 1e12)} TFLOP/s"
        for name, work in (("decode", capacity.decode), ("prefill", capacity.prefill))
    ]
    lines = [f"{name}: {value}" for name, value in facts(capacity)]
    ridge = f"roofline: {roof}, ridge at {digits(capacity.ridge)} operations per byte"
    memory_line = f"memory {memory(capacity.memory_bytes)}: {bar}; {share}"
    return "\n".join([title(capacity), memory_line, "", *lines, "", ridge, *points, "", sentence(capacity)])
