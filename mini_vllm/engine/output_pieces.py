"""Sends an engine process's outputs as pieces that contain only the new parts, and merges them for slow readers."""

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from mini_vllm.outputs import CompletionOutput, MetricValues, RequestMetrics, RequestOutput, TokenLogprobs

Logprobs = list[TokenLogprobs | None]


class OutputPiece(NamedTuple):
    """The new part of an output. (vLLM: `EngineCoreOutput` of `v1/engine/__init__.py`.)

    Only a request's first piece contains the prompt: its text (None if it was token ids) and its tokens.
    """

    request_id: str
    prompt: tuple[str | None, list[int]] | None
    new_text: str
    new_token_ids: list[int]
    new_logprobs: Logprobs | None
    finish_reason: str | None
    stop_reason: int | str | None
    error: str | None
    metrics: MetricValues


def piece_of(output: RequestOutput) -> OutputPiece:
    """Return the part of an output that is new since the previous output."""
    completion = output.outputs[0]
    first_new = len(completion.token_ids) - output.num_new_tokens
    return OutputPiece(
        output.request_id,
        None if first_new else (output.prompt, output.prompt_token_ids),
        output.new_text,
        completion.token_ids[first_new:],
        None if completion.logprobs is None else completion.logprobs[first_new:],
        completion.finish_reason,
        completion.stop_reason,
        output.error,
        output.metrics.values(),
    )


@dataclass(slots=True)
class Joined:
    """The pieces of one request so far."""

    prompt: str | None
    prompt_token_ids: list[int]
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: Logprobs = field(default_factory=list)


class PieceJoiner:
    """Turns pieces back into the original outputs."""

    def __init__(self) -> None:
        self._joined: dict[str, Joined] = {}

    def join(self, piece: OutputPiece) -> RequestOutput | None:
        """Add a piece and return the whole output so far, or None if the request has been forgotten."""
        if piece.prompt is not None:
            self._joined[piece.request_id] = Joined(*piece.prompt)
        joined = self._joined.get(piece.request_id)
        if joined is None:
            return None
        joined.text += piece.new_text
        joined.token_ids += piece.new_token_ids
        joined.logprobs += piece.new_logprobs or []
        if piece.finish_reason is not None:
            self.forget(piece.request_id)
        completion = CompletionOutput(
            joined.text,
            joined.token_ids.copy(),
            piece.finish_reason,
            piece.stop_reason,
            None if piece.new_logprobs is None else joined.logprobs.copy(),
        )
        return RequestOutput(
            piece.request_id,
            joined.prompt,
            joined.prompt_token_ids,
            [completion],
            RequestMetrics(*piece.metrics),
            piece.new_text,
            len(piece.new_token_ids),
            piece.error,
        )

    def forget(self, request_id: str) -> None:
        """Drop the pieces of a request whose reader has left."""
        self._joined.pop(request_id, None)


class OutputCollector:
    """The newest output of one request, until it is read. (vLLM: `RequestOutputCollector`.)

    A new output is merged with an unread one. Even a slow reader's queue therefore holds a single output, and the
    engine never waits for the reader.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._output: RequestOutput | None = None
        self._error: Exception | None = None
        self._is_there = asyncio.Event()

    def put(self, output: RequestOutput) -> None:
        """Store an output, merged with any unread one. Called on the reader's event loop."""
        if self._output is not None:
            output.new_text = self._output.new_text + output.new_text
            output.num_new_tokens += self._output.num_new_tokens
        self._output = output
        self._is_there.set()

    def fail(self, error: Exception) -> None:
        """Make the reader's `get` raise `error` after any unread output. Called on the reader's event loop.

        The first error is kept, because a process that is killed for some stated reason also reports its exit code
        later.
        """
        self._error = self._error or error
        self._is_there.set()

    async def get(self) -> RequestOutput:
        """Wait for an output and return it. Raises the error that was passed to `fail`."""
        await self._is_there.wait()
        output, self._output = self._output, None
        if output is None:
            assert self._error is not None
            raise self._error
        if self._error is None:
            self._is_there.clear()
        return output
