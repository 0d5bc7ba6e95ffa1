"""Describes how chat and completion answers differ in their JSON names and in how they report logprobs.

vLLM: `_create_chat_logprobs` and `_create_completion_logprobs` in `entrypoints/openai/*/serving.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.outputs import CompletionOutput, Logprob, TokenLogprobs

TokenRow = tuple[int, TokenLogprobs | None]
MIN_LOGPROB = -9999.0  # vLLM's replacement for minus infinity, which JSON cannot express


class ReportedLogprobs:
    """The logprobs of one growing text; each `take` call reports the tokens generated since the previous call.

    Each position reports the sampled token and up to `max_shown` of the likeliest tokens.
    """

    def __init__(self, tokenizer: Tokenizer, max_shown: int) -> None:
        self._text_of = cache(lambda token_id: tokenizer.decode([token_id]))  # clients often send the same tokens again
        self._max_shown = max_shown
        self._num_reported = 0
        self._num_characters = 0

    def take_for_chat(self, completion: CompletionOutput) -> dict[str, Any]:
        """Return the new tokens as a chat reports them: one object per token."""
        content = []
        for token_id, row in self._new(completion):
            likeliest = [] if row is None else sorted(row.items(), key=_rank)[: self._max_shown]
            content.append(
                self._entry(token_id, None if row is None else row[token_id])
                | {"top_logprobs": [self._entry(other, logprob) for other, logprob in likeliest]}
            )
        return {"content": content, "refusal": None}

    def take_for_completion(self, completion: CompletionOutput) -> dict[str, Any]:
        """Return the new tokens as a completion reports them: one list per property.

        `top_logprobs` includes the sampled token even if it is not among the likeliest.
        """
        tokens, offsets, own, top = [], [], [], []
        for token_id, row in self._new(completion):
            text = self._text_of(token_id)
            tokens.append(text)
            offsets.append(self._num_characters)
            self._num_characters += len(text)
            own.append(None if row is None else _finite(row[token_id]))
            top.append(None if row is None else self._likeliest(token_id, row))
        return {"tokens": tokens, "token_logprobs": own, "top_logprobs": top, "text_offset": offsets}

    def _new(self, completion: CompletionOutput) -> list[TokenRow]:
        first, self._num_reported = self._num_reported, len(completion.token_ids)
        return list(zip(completion.token_ids[first:], (completion.logprobs or [])[first:], strict=True))

    def _entry(self, token_id: int, logprob: Logprob | None) -> dict[str, Any]:
        text = self._text_of(token_id)
        return {"token": text, "logprob": logprob and _finite(logprob), "bytes": list(text.encode())}

    def _likeliest(self, taken: int, row: TokenLogprobs) -> dict[str, float]:
        shown = [item for item in sorted(row.items(), key=_rank) if item[0] == taken or item[1].rank <= self._max_shown]
        return {self._text_of(token_id): _finite(logprob) for token_id, logprob in shown}


def _rank(item: tuple[int, Logprob]) -> int:
    return item[1].rank


def _finite(logprob: Logprob) -> float:
    return max(logprob.logprob, MIN_LOGPROB)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The JSON format of one route. A streamed choice begins with `opening`, if set, and ends with `ending`."""

    id_prefix: str
    object: str
    chunk_object: str
    opening: dict[str, Any] | None
    ending: dict[str, Any]
    piece: Callable[[str], dict[str, Any]]
    whole: Callable[[str], dict[str, Any]]
    take_logprobs: Callable[[ReportedLogprobs, CompletionOutput], dict[str, Any]]


CHAT = AnswerFormat(
    id_prefix="chatcmpl",
    object="chat.completion",
    chunk_object="chat.completion.chunk",
    opening={"delta": {"role": "assistant", "content": ""}},
    ending={"delta": {}},
    piece=lambda text: {"delta": {"content": text}},
    whole=lambda text: {"message": {"role": "assistant", "content": text}},
    take_logprobs=ReportedLogprobs.take_for_chat,
)
COMPLETION = AnswerFormat(
    id_prefix="cmpl",
    object="text_completion",
    chunk_object="text_completion",
    opening=None,
    ending={"text": ""},
    piece=lambda text: {"text": text},
    whole=lambda text: {"text": text},
    take_logprobs=ReportedLogprobs.take_for_completion,
)
