"""What is done with phase 6's functions outside of an engine."""

from typing import Any

from classroom.worker.drivers.attempt import Result, attempt
from mini_vllm.core.step import ScheduledRequest


def batch_rows(file: Any, batch: list[ScheduledRequest]) -> Result:
    """Return `flatten_tokens` and `select_logits_rows` of a batch."""
    return [*[list(part) for part in file.flatten_tokens(batch)], list(file.select_logits_rows(batch))]


def batch_places(file: Any, batch: list[ScheduledRequest], block_size: int) -> Result:
    """Return `compute_slot_mapping` and `pad_block_tables` of a batch."""
    tables = [list(table) for table in file.pad_block_tables(batch, block_size)]
    return [list(file.compute_slot_mapping(batch, block_size)), tables]


def write_kv(file: Any, *tensors: Any) -> Result:
    """Return the two caches after the write."""
    file.write_kv(*tensors)
    return [tensors[2], tensors[3]]


def paged_attention(file: Any, *arguments: Any) -> Result:
    """Return the attention output of the tokens."""
    return [file.paged_attention(*arguments)]


def sample(file: Any, *arguments: Any) -> Result:
    """Return the tokens."""
    return [int(token) for token in file.sample(*arguments)]


def kv_memory(file: Any, cases: list[tuple[str, list[Any]]]) -> Result:
    """Call the two functions about memory."""
    return [attempt(lambda name=name, numbers=numbers: getattr(file, name)(*numbers)) for name, numbers in cases]  # type: ignore[misc]


def flat_batch_function(file: Any, name: str, arguments: list[Any]) -> Result:
    """Call one function of phase 6 that turns a batch into lists."""
    found = getattr(file, name)(*arguments)
    return [list(part) if isinstance(part, list | tuple) else part for part in found]
