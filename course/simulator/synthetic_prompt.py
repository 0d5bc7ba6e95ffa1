"""Prompts without text: only their lengths, and how far two of them agree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import overload

from course.workloads.timed_request import TimedRequest


@dataclass(frozen=True, slots=True)
class SyntheticPrompt(Sequence[int]):
    """`num_tokens` token ids that agree with another prompt's exactly as far as the two share their text.

    The first `num_shared_tokens` are the same in every prompt with the same `shared_prefix`. The rest belongs to
    a `conversation`: a later turn of it begins with all tokens of the turns before.
    """

    num_tokens: int
    conversation: int
    shared_prefix: int = 0
    num_shared_tokens: int = 0

    def __len__(self) -> int:
        return self.num_tokens

    def __iter__(self) -> Iterator[int]:
        shared = min(self.num_shared_tokens, self.num_tokens)
        own = self.num_tokens - shared
        return chain(repeat(2 * self.shared_prefix + 1, shared), repeat(2 * self.conversation, own))

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return list(self)[index]

    def scaled(self, factor: float) -> "SyntheticPrompt":
        """Return the prompt with its lengths multiplied by `factor`, at least one token long."""
        num_tokens = max(1, round(self.num_tokens * factor))
        return replace(self, num_tokens=num_tokens, num_shared_tokens=round(self.num_shared_tokens * factor))


def prompt_of(request: TimedRequest) -> SyntheticPrompt:
    """Return the prompt of a request from `make_requests`. Raises `TypeError` for a prompt of real token ids."""
    prompt = request.prompt_token_ids
    if not isinstance(prompt, SyntheticPrompt):
        raise TypeError(f"the prompt of a named workload must be a SyntheticPrompt, got a {type(prompt).__name__}")
    return prompt
