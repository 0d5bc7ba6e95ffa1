"""A model of integers: no weights, no torch, and not one wrong slot goes unnoticed.

Its "KV cache" stores the token itself in the token's slot. The next token is a hash of all tokens of the
request *as read back through its block table*: a wrong block, slot, position or hit changes the text,
every time and in the same way.
"""

from array import array
from collections.abc import Sequence
from zlib import crc32

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest

LETTERS = b" abcdefghijklmnopqrstuvwxyz"


class FakeModelRunner:
    """A `ModelRunner` over `num_blocks` blocks that answers with tokens out of `answers`."""

    vocab_size = 1000

    def __init__(self, num_blocks: int, block_size: int, answers: Sequence[int] = range(100, 1000)) -> None:
        self.block_size = block_size
        self.answers = answers
        self.slots = array("q", [-1]) * (num_blocks * block_size)

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Write the tokens of all requests first, then let those that sample read: as one forward pass does."""
        for row in batch:
            self._write(row)
        return ModelRunnerOutput({row.request.request_id: [self._next_token(row)] for row in batch if row.needs_token})

    def _write(self, row: ScheduledRequest) -> None:
        first = row.num_computed_tokens
        for position in range(first, first + row.num_scheduled_tokens):
            self.slots[self._slot(row, position)] = row.request.all_token_ids[position]

    def _next_token(self, row: ScheduledRequest) -> int:
        num_tokens = row.num_computed_tokens + row.num_scheduled_tokens
        seen = array("q", (self.slots[self._slot(row, position)] for position in range(num_tokens)))
        return self.answers[crc32(seen.tobytes()) % len(self.answers)]

    def _slot(self, row: ScheduledRequest, position: int) -> int:
        block_index, offset = divmod(position, self.block_size)
        if block_index >= len(row.block_ids):
            raise RuntimeError(
                f"token {position} of {row.request.request_id} needs block {block_index + 1} of its table, "
                f"which has {len(row.block_ids)} blocks of {self.block_size}"
            )
        return row.block_ids[block_index] * self.block_size + offset


def toy_continuation(token_ids: Sequence[int], num_tokens: int, answers: Sequence[int] = range(100, 1000)) -> list[int]:
    """Return what the toy says after `token_ids`, computed without any cache: the truth to compare with."""
    seen = array("q", token_ids)
    for _ in range(num_tokens):
        seen.append(answers[crc32(seen.tobytes()) % len(answers)])
    return list(seen[len(token_ids) :])
