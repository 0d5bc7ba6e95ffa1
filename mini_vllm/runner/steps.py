"""Phase 6's functions for the runner, and the tensors that they exchange."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mini_vllm.core.interfaces import SelectLogitsRows
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.windows.window_functions import WindowFunctions
from mini_vllm.runner.groups import Integers, RequestGroup, group_requests
from mini_vllm.runner.step_buffer import Numbers, StepBuffer
from mini_vllm.sampling_params import SamplingParams

Booleans = NDArray[np.bool_]
# a request with more tokens than this is a chunk; otherwise, it decodes one token or verifies drafts
MAX_DECODE_TOKENS = 8


@dataclass
class FlatBatch:
    """All tokens of one step in one row, without padding.

    T tokens of R requests, of which S need a token: `input_ids`, `positions`, `slot_mapping` [T], `logits_indices` [S].
    `query_start_loc` [R + 1] contains the row at which each request begins, and `seq_lens` [R] contains how many of its
    tokens are in the cache after this step. `block_tables` [R, longest table] is padded with block 0. These tensors are
    int64. `query_lens` and `seq_lens_cpu` are the lengths as Python integers, which can be read without waiting for a
    GPU. `groups` contains the same requests, grouped by length. `others` contains the same tokens with the slots and
    block tables of the other layer groups.
    """

    input_ids: Tensor
    positions: Tensor
    slot_mapping: Tensor
    query_start_loc: Tensor
    seq_lens: Tensor
    block_tables: Tensor
    logits_indices: Tensor
    query_lens: list[int]
    seq_lens_cpu: list[int]
    block_size: int
    others: tuple["FlatBatch", ...] = ()

    def of_layers(self, group: int) -> "FlatBatch":
        """Return the batch for a group of layers; in a dummy batch all groups share one."""
        return self.others[group - 1] if group and self.others else self

    @cached_property
    def groups(self) -> list[RequestGroup]:
        return group_requests(self.query_lens, self.seq_lens_cpu, self.block_tables, self.positions, self.block_size)

    @cached_property
    def decodes_and_chunks(self) -> tuple["Decodes", "Chunks | None"]:
        """The step's requests, split by length: short ones as rows, long ones as a batch (None if there are none)."""
        lengths = np.asarray(self.query_lens)
        is_long = lengths > MAX_DECODE_TOKENS
        if len(lengths) == len(self.input_ids):
            return Decodes(self.query_start_loc[:-1], self.block_tables, self.seq_lens), None
        owners = np.repeat(np.arange(len(lengths)), lengths)
        rows = torch.from_numpy(np.flatnonzero(~is_long[owners]))
        requests = torch.from_numpy(owners)[rows]
        decodes = Decodes(rows, self.block_tables[requests], self.positions[rows] + 1)
        return decodes, self._chunks(is_long, owners) if is_long.any() else None

    def _chunks(self, is_long: Booleans, owners: Integers) -> "Chunks":
        rows, requests = (torch.from_numpy(np.flatnonzero(which)) for which in (is_long[owners], is_long))
        query_lens = [self.query_lens[request] for request in requests]
        return Chunks(
            rows,
            requests,
            replace(
                self,
                input_ids=self.input_ids[rows],
                positions=self.positions[rows],
                slot_mapping=self.slot_mapping[rows],
                query_start_loc=torch.tensor([0, *accumulate(query_lens)]),
                seq_lens=self.seq_lens[requests],
                block_tables=self.block_tables[requests],
                query_lens=query_lens,
                seq_lens_cpu=[self.seq_lens_cpu[request] for request in requests],
            ),
        )


@dataclass(frozen=True, slots=True)
class Decodes:
    """Rows of a step that attend separately from each other: their indices [N], block tables [N, longest] and lengths
    [N]."""

    rows: Tensor
    block_tables: Tensor
    seq_lens: Tensor


@dataclass(frozen=True, slots=True)
class Chunks:
    """The rows of a step's chunks, the indices of their requests, and a batch with only these requests.

    The `logits_indices` of `batch` are those of the whole step.
    """

    rows: Tensor
    requests: Tensor
    batch: FlatBatch


def dummy_batch(query_lens: list[int], longest_table: int, block_size: int, device: torch.device) -> FlatBatch:
    """Return a step of prompts with these lengths, all of which need a token.

    All slots are in the null block, so the results are meaningless but cost as much as real ones.
    """
    lengths = torch.tensor(query_lens, device=device)
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    positions = torch.cat([torch.arange(length, device=device) for length in query_lens])
    return FlatBatch(
        input_ids=torch.zeros_like(positions),
        positions=positions,
        slot_mapping=positions % block_size,
        query_start_loc=starts,
        seq_lens=lengths,
        block_tables=torch.zeros(len(query_lens), longest_table, dtype=torch.int64, device=device),
        logits_indices=starts[1:] - 1,
        query_lens=query_lens,
        seq_lens_cpu=query_lens,
        block_size=block_size,
    )


class WriteKV(Protocol):
    def __call__(
        self, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
    ) -> None: ...


class PagedAttention(Protocol):
    def __call__(
        self, query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float
    ) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class RunnerSteps:
    """The functions of phase 6, and those of phase 12 for layers with windows.

    `can_be_recorded` means that attention in decode steps reads only `block_tables` and `seq_lens`, as CUDA graphs
    require. `ignores_threads` means that the number of threads does not change a single bit of the results. The results
    of torch's attention depend on the number of threads.
    """

    flatten_tokens: Callable[[Sequence[ScheduledRequest]], tuple[list[int], list[int], list[int]]]
    compute_slot_mapping: Callable[[Sequence[ScheduledRequest], int], list[int]]
    pad_block_tables: Callable[[Sequence[ScheduledRequest], int], list[list[int]]]
    select_logits_rows: SelectLogitsRows
    write_kv: WriteKV
    paged_attention: PagedAttention
    sample: Callable[[Tensor, Sequence[SamplingParams], Sequence[float]], list[int]]
    kv_block_bytes: Callable[[int, int, int, int, int], int]
    num_blocks_that_fit: Callable[[int, int, float, int], int]
    can_be_recorded: bool = False
    ignores_threads: bool = False
    windows: WindowFunctions | None = None

    def flat_batch(self, batch: Sequence[ScheduledRequest], block_size: int, buffer: StepBuffer) -> FlatBatch:
        """Turn a batch into tensors in `buffer`, which are valid until the next use of `buffer`."""
        input_ids, positions, query_start_loc = self.flatten_tokens(batch)
        seq_lens = [scheduled.num_computed_tokens + scheduled.num_scheduled_tokens for scheduled in batch]
        parts: dict[str, Numbers] = {
            "input_ids": input_ids,
            "positions": positions,
            "slot_mapping": self.compute_slot_mapping(batch, block_size),
            "query_start_loc": query_start_loc,
            "seq_lens": seq_lens,
            "block_tables": self.pad_block_tables(batch, block_size),
            "logits_indices": self.select_logits_rows(batch),
        }
        other_parts: list[Numbers] = []
        for group in range(1, max((len(one.block_tables) for one in batch), default=0)):
            shares = [replace(one, block_ids=one.block_tables[group]) for one in batch]
            other_parts += [self.compute_slot_mapping(shares, block_size), self.pad_block_tables(shares, block_size)]
        staged = buffer.stage([*parts.values(), *other_parts])
        tensors: dict[str, Any] = dict(zip(parts, staged, strict=False))
        flat = FlatBatch(
            **tensors,
            query_lens=[scheduled.num_scheduled_tokens for scheduled in batch],
            seq_lens_cpu=seq_lens,
            block_size=block_size,
        )
        pairs = zip(staged[len(parts) :: 2], staged[len(parts) + 1 :: 2], strict=True)
        flat.others = tuple(replace(flat, slot_mapping=slots, block_tables=tables) for slots, tables in pairs)
        return flat
