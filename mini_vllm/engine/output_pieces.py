"""Outputs of an engine's process, in pieces that carry only what is new, and their way to a slow reader."""

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from mini_vllm.outputs import CompletionOutput, MetricValues, RequestMetrics, RequestOutput, TokenLogprobs

Logprobs = list[TokenLogprobs | None]


class OutputPiece(NamedTuple):
    """What an output adds to those before it. (vLLM: `EngineCoreOutput` of `v1/engine/__init__.py`.)

    Only the first piece of a request has its prompt: the text, if it was one, and the tokens.
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
    """Return what an output adds to the one before it."""
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
    """Turns pieces back into the outputs that they came from."""

    def __init__(self) -> None:
        self._joined: dict[str, Joined] = {}

    def join(self, piece: OutputPiece) -> RequestOutput | None:
        """Return the output that a piece completes; None if the request has been forgotten."""
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
        """Drop the pieces of a request that no longer has a reader."""
        self._joined.pop(request_id, None)


class OutputCollector:
    """The newest output of one request, until it is read. (vLLM: `RequestOutputCollector`.)

    An output that comes before the previous one is read is merged with it. So a reader holds one output, however slow
    it is, and the engine never waits for it.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._output: RequestOutput | None = None
        self._error: Exception | None = None
        self._is_there = asyncio.Event()

    def put(self, output: RequestOutput) -> None:
        """Called on the reader's loop."""
        if self._output is not None:
            output.new_text = self._output.new_text + output.new_text
            output.num_new_tokens += self._output.num_new_tokens
        self._output = output
        self._is_there.set()

    def fail(self, error: Exception) -> None:
        """Let the reader's `get` raise, after an output that has already come. Called on the reader's loop."""
        self._error = error
        self._is_there.set()

    async def get(self) -> RequestOutput:
        """Wait for an output and take it."""
        await self._is_there.wait()
        output, self._output = self._output, None
        if output is None:
            assert self._error is not None
            raise self._error
        if self._error is None:
            self._is_there.clear()
        return output
