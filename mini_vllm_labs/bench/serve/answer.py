"""The answer to one request: its text, and when each part of it arrived."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


class BrokenAnswerError(Exception):
    """A server's answer ended early or is malformed; the message contains the details."""


@dataclass(slots=True)
class ClientAnswer:
    """Times are seconds from the start of a round; `error` is the reason for a failure, or None.

    `planned` is when the request should have been sent, and `sent` is when it was.
    """

    planned: float = 0.0
    sent: float = 0.0
    ended: float = 0.0
    token_times: list[float] = field(default_factory=list)
    text: str = ""
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    finish_reason: str | None = None
    status: int = 0
    error: str | None = None

    @property
    def ttft(self) -> float:
        """Seconds to the first token."""
        return self.token_times[0] - self.sent

    @property
    def e2el(self) -> float:
        """Seconds to the last token."""
        return self.token_times[-1] - self.sent

    @property
    def tpot(self) -> float:
        """Mean seconds per token after the first; 0 for a one-token answer."""
        return (self.e2el - self.ttft) / (self.num_output_tokens - 1) if self.num_output_tokens > 1 else 0.0

    @property
    def itls(self) -> Sequence[float]:
        """Seconds between one part of the text and the next. A part may contain several tokens."""
        return [later - earlier for earlier, later in pairwise(self.token_times)]


class EventStream:
    """Reads the server-sent events of a completion or a chat completion into a `ClientAnswer`.

    `feed` raises `BrokenAnswerError` for an event that is not a completion or that reports an error.
    """

    def __init__(self, answer: ClientAnswer, start: float) -> None:
        self.answer, self.start = answer, start
        self._rest = b""
        self._parts: list[str] = []

    def feed(self, data: bytes) -> None:
        """Process the next bytes of the response body."""
        now = time.perf_counter() - self.start
        *events, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                if line.startswith(b"data:") and (payload := line[5:].strip()) != b"[DONE]":
                    self._take(payload, now)

    def finish(self) -> None:
        """Complete the answer. Raises `BrokenAnswerError` if there is no finish reason."""
        self.feed(b"\n\n")  # the last event may not be followed by a blank line
        answer = self.answer
        answer.text = "".join(self._parts)
        if answer.finish_reason is None:
            raise BrokenAnswerError("the stream ended without a finish_reason")
        answer.num_output_tokens = answer.num_output_tokens or len(answer.token_times)  # not all servers report usage

    def _take(self, payload: bytes, now: float) -> None:
        try:
            event = json.loads(payload)
            if "error" in event:
                raise BrokenAnswerError(f"the stream contains an error: {error_message(event)}")
            for choice in event["choices"]:
                self._take_choice(choice, now)
            if usage := event.get("usage"):
                self.answer.num_prompt_tokens = int(usage["prompt_tokens"])
                self.answer.num_output_tokens = int(usage["completion_tokens"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BrokenAnswerError(
                f"the stream contains an event that is not a completion: {payload[:80].decode(errors='replace')}"
            ) from error

    def _take_choice(self, choice: dict[str, Any], now: float) -> None:
        text = choice["delta"].get("content") if "delta" in choice else choice["text"]
        reason = choice.get("finish_reason")
        # The last token may not add any text: it may be an end token or half a character.
        if text or (reason is not None and not self.answer.token_times):
            self.answer.token_times.append(now)
            self._parts.append(text or "")
        self.answer.finish_reason = reason or self.answer.finish_reason


def error_message(body: Any) -> str:
    """Return the message of an error in OpenAI's format, or the body if it has a different format."""
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)[:200]
