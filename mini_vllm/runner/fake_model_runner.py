"""A fake model that works on integers, without weights or torch; its text changes if any slot is wrong.

Its "KV cache" stores the token itself in the token's slot. The next token is a hash of all tokens of the request *as
read back through its block table*. A wrong block, slot, position or prefix hit therefore always changes the text. A
mixed-up image also changes the text, because the slots of an image's tokens store the image's content.
"""

from array import array
from collections.abc import Sequence
from zlib import crc32

from mini_vllm.core.request import Request
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.speculation import AcceptDrafts
from mini_vllm.outputs import Logprob

LETTERS = b" abcdefghijklmnopqrstuvwxyz"


class FakeModelRunner:
    """A `ModelRunner` with `num_blocks` blocks that generates tokens from `answers`."""

    vocab_size = 1000

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        answers: Sequence[int] = range(100, 1000),
        accept_drafts: AcceptDrafts | None = None,
    ) -> None:
        self.accept_drafts = accept_drafts
        self.block_size = block_size
        self.answers = answers
        self.slots = array("q", [-1]) * (num_blocks * block_size)

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Write the tokens of all requests, then read them back and sample, in the order of a forward pass."""
        batch = [scheduled.with_drafts() for scheduled in batch]
        for scheduled in batch:
            self._write(scheduled)
        sampling = [scheduled for scheduled in batch if scheduled.needs_token]
        sampled = {one.request.request_id: self._sample(one) for one in sampling}
        certain = {
            one.request.request_id: [{token_id: Logprob(0.0, rank=1)} for token_id in sampled[one.request.request_id]]
            for one in sampling
            if one.request.sampling_params.logprobs is not None
        }
        return ModelRunnerOutput(sampled, logprobs=certain)

    def _sample(self, scheduled: ScheduledRequest) -> list[int]:
        end, drafts = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens, scheduled.draft_token_ids
        num_known_tokens = end - len(drafts)
        if not drafts or self.accept_drafts is None:
            return [self._next_token(scheduled, num_known_tokens)]
        sampled = [self._next_token(scheduled, num_tokens) for num_tokens in range(num_known_tokens, end + 1)]
        return self.accept_drafts(drafts, sampled)

    def _write(self, scheduled: ScheduledRequest) -> None:
        first, contents = scheduled.num_computed_tokens, contents_of(scheduled.request)
        for position in range(first, first + scheduled.num_scheduled_tokens):
            self.slots[self._slot(scheduled, position)] = contents[position]

    def _next_token(self, scheduled: ScheduledRequest, num_tokens: int) -> int:
        seen = array("q", (self.slots[self._slot(scheduled, position)] for position in range(num_tokens)))
        return self.answers[crc32(seen.tobytes()) % len(self.answers)]

    def _slot(self, scheduled: ScheduledRequest, position: int) -> int:
        block_index, offset = divmod(position, self.block_size)
        if block_index >= len(scheduled.block_ids):
            raise RuntimeError(
                f"token {position} of {scheduled.request.request_id} needs block {block_index + 1} of its table, which "
                f"has only {len(scheduled.block_ids)} blocks of {self.block_size} tokens"
            )
        return scheduled.block_ids[block_index] * self.block_size + offset


def contents_of(request: Request) -> Sequence[int]:
    """Return the model's input at each position: a token, or part of an image."""
    if not request.mm_features:
        return request.all_token_ids
    contents = list(request.all_token_ids)
    for image in request.mm_features:
        parts = (f"{image.identifier}:{place}".encode() for place in range(image.length))
        contents[image.offset : image.end] = map(crc32, parts)
    return contents


def fake_continuation(
    token_ids: Sequence[int], num_tokens: int, answers: Sequence[int] = range(100, 1000)
) -> list[int]:
    """Return the fake model's correct tokens after `token_ids`, computed without a cache."""
    seen = array("q", token_ids)
    for _ in range(num_tokens):
        seen.append(answers[crc32(seen.tobytes()) % len(answers)])
    return list(seen[len(token_ids) :])
