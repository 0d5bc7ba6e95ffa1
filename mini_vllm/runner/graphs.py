"""Runs decode steps as CUDA graphs: records a forward pass's kernel launches once and replays them in each step.

A graph replays the same kernels with the same memory addresses, so each graph has a fixed batch size and its own input
tensors. There is one graph per size in `bucket_sizes`; a batch is padded to the next size. (vLLM:
`cudagraph_capture_sizes`.)
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from mini_vllm.runner.paged_model import ForwardPass
from mini_vllm.runner.steps import FlatBatch, dummy_batch

WARM_UP_STEPS = 2
MAX_GRAPH_REQUESTS = 256  # for a larger batch, launching kernels costs little compared with the arithmetic


def bucket_sizes(max_num_seqs: int) -> list[int]:
    """Return the batch sizes to record: 1, 2, 4, multiples of 8, and the largest, which is at most 256."""
    largest = min(max_num_seqs, MAX_GRAPH_REQUESTS)
    return sorted({size for size in (1, 2, 4, *range(8, largest, 8), largest) if size <= largest})


def bucket_for(flat: FlatBatch, sizes: list[int]) -> int | None:
    """Return the smallest size that holds a batch, or None if the batch is too large or contains prefills."""
    num_requests = len(flat.query_lens)
    if len(flat.input_ids) != num_requests or len(flat.logits_indices) != num_requests or num_requests > sizes[-1]:
        return None
    return sizes[bisect_left(sizes, num_requests)]


def fill(static: FlatBatch, flat: FlatBatch) -> None:
    """Copy a decode step into the first rows of `static`, in place; reset the other rows to padding."""
    _put(flat.input_ids, static.input_ids, padding=0)
    _put(flat.positions, static.positions, padding=0)
    _put(flat.slot_mapping, static.slot_mapping, padding=0)
    _put(flat.block_tables, static.block_tables, padding=0)
    _put(flat.seq_lens, static.seq_lens, padding=1)
    static.seq_lens_cpu = flat.seq_lens_cpu + [1] * (len(static.seq_lens) - len(flat.seq_lens))


def _put(source: Tensor, target: Tensor, padding: int) -> None:
    target.fill_(padding)
    target[tuple(slice(length) for length in source.shape)] = source


@dataclass(slots=True)
class RecordedStep:
    """One graph, its input tensors and its output logits."""

    graph: torch.cuda.CUDAGraph
    inputs: FlatBatch
    logits: Tensor


class GraphedModel:
    """A `ForwardPass` on a GPU that replays decode steps from graphs, and runs all other steps directly.

    The attention of `model` must read only `block_tables` and `seq_lens`, as the Triton kernel does: `groups` depend on
    the batch, but a graph would replay the recorded ones. `replays` counts the steps of each size; key 0 counts the
    steps that ran directly.
    """

    def __init__(self, model: ForwardPass, max_num_seqs: int, longest_table: int) -> None:
        """Record all sizes, the largest first, so that the smaller ones reuse its memory."""
        self.model = model
        self.device, self.vocab_size, self.block_size = model.device, model.vocab_size, model.block_size
        self.kv_caches = model.kv_caches
        self.sizes = bucket_sizes(max_num_seqs)
        self.replays: Counter[int] = Counter()
        self.pool = torch.cuda.graph_pool_handle()
        self.steps = {size: self._record(size, longest_table) for size in reversed(self.sizes)}

    @torch.inference_mode()
    def _record(self, size: int, longest_table: int) -> RecordedStep:
        inputs = dummy_batch([1] * size, longest_table, self.block_size, self.device)
        for _ in range(WARM_UP_STEPS):
            self.model.forward(inputs)
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            logits = self.model.forward(inputs)
        return RecordedStep(graph, inputs, logits)

    @torch.inference_mode()
    def forward(self, flat: FlatBatch) -> Tensor:
        """Compute a step; return logits [S, vocab] for the rows in `logits_indices`."""
        size = bucket_for(flat, self.sizes)
        self.replays[size or 0] += 1
        if size is None:
            return self.model.forward(flat)
        step = self.steps[size]
        fill(step.inputs, flat)
        step.graph.replay()
        return step.logits[: len(flat.query_lens)].clone()


def with_graphs(model: ForwardPass, max_num_seqs: int, longest_table: int) -> GraphedModel:
    """Return the model with its graphs. Raises `ValueError` if a part of the model cannot be recorded.

    Running without graphs would be slow for small batches, and nothing would explain why.
    """
    try:
        return GraphedModel(model, max_num_seqs, longest_table)
    except RuntimeError as error:
        raise ValueError(
            f"decode steps cannot be recorded as CUDA graphs ({error}): set enforce_eager=True to run without them"
        ) from error
