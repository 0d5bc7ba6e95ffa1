"""Decode steps as CUDA graphs: record the kernel launches of a forward pass once, replay them in each step.

A graph replays the same kernels on the same addresses, so it has one batch size and its own input tensors. There is
one graph per size in `bucket_sizes`; a batch is padded to the next size. (vLLM: `cudagraph_capture_sizes`.)
"""

import warnings
from bisect import bisect_left
from dataclasses import dataclass

import torch
from torch import Tensor

from mini_vllm.runner.paged_model import ForwardPass
from mini_vllm.runner.steps import FlatBatch, dummy_batch

WARM_UP_STEPS = 2


def bucket_sizes(max_num_seqs: int) -> list[int]:
    """Return the batch sizes to record: 1, 2, 4, then multiples of 8, and the largest."""
    return sorted({size for size in (1, 2, 4, *range(8, max_num_seqs, 8), max_num_seqs) if size <= max_num_seqs})


def bucket_for(flat: FlatBatch, sizes: list[int]) -> int | None:
    """Return the smallest size that holds a batch; None if it is too large or not every request decodes and samples."""
    num_requests = len(flat.query_lens)
    if len(flat.input_ids) != num_requests or len(flat.logits_indices) != num_requests or num_requests > sizes[-1]:
        return None
    return sizes[bisect_left(sizes, num_requests)]


def fill(static: FlatBatch, flat: FlatBatch) -> None:
    """Copy a step of decodes into the first rows of `static`, in place; the rest becomes padding again."""
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
    """One graph, the tensors that it reads and the logits that it writes."""

    graph: torch.cuda.CUDAGraph
    inputs: FlatBatch
    logits: Tensor


class GraphedModel:
    """A `ForwardPass` on a GPU that replays decode steps from graphs, and runs all other steps directly.

    The attention of `model` must read only `block_tables` and `seq_lens`, as the Triton kernel does: `groups` belong
    to one batch, and a graph would replay them for every other batch.
    """

    def __init__(self, model: ForwardPass, max_num_seqs: int, longest_table: int) -> None:
        """Record all sizes, the largest first: the smaller ones then reuse its memory."""
        self.model = model
        self.device, self.vocab_size, self.block_size = model.device, model.vocab_size, model.block_size
        self.sizes = bucket_sizes(max_num_seqs)
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
        """Compute a step; return the logits of the rows in `logits_indices` [S, vocab]."""
        size = bucket_for(flat, self.sizes)
        if size is None:
            return self.model.forward(flat)
        step = self.steps[size]
        fill(step.inputs, flat)
        step.graph.replay()
        return step.logits[: len(flat.query_lens)].clone()


def with_graphs(model: ForwardPass, max_num_seqs: int, longest_table: int) -> ForwardPass:
    """Return the model with graphs; warn and return it unchanged if something in it cannot be recorded."""
    try:
        return GraphedModel(model, max_num_seqs, longest_table)
    except RuntimeError as error:
        warnings.warn(f"decode steps are not recorded as CUDA graphs: {error}", stacklevel=2)
        return model
