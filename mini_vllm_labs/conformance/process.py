"""Communicates with an engine's process through JSON lines. Explains every possible failure in a sentence."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from mini_vllm_labs.conformance.scenarios import CAPABILITIES, FILES, SHORT, Message

PROTOCOL = 1
LONGEST_LINE = 4 << 20  # in bytes; the longest correct answer in the suite is about 20 KB
MAX_SHOWN = 120


class BrokenEngineError(Exception):
    """The engine exited, took too long to answer, or sent something other than the requested answer."""

    step: int | None = None  # the exit code given in the message, if there is one


class RefusedError(Exception):
    """The engine reports that it does not support a setting or a message."""


class EngineClient:
    """An engine's command, which is started for the first question and restarted after it breaks."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self.command, self.timeout = list(command), timeout
        self._process: subprocess.Popen[bytes] | None = None

    def greet(self) -> Message:
        """Start the engine and return its greeting.

        Raises `ValueError` if the command cannot be started or the greeting is wrong, and `BrokenEngineError` if no
        greeting arrives.
        """
        try:
            self._start()
        except OSError as error:
            raise ValueError(f"cannot start {self.command[0]!r}: {error.strerror or error}") from error
        (hello,) = self._exchange([{"op": "hello", "protocol": PROTOCOL, "releases": list(FILES)}])
        return _greeting(hello)

    def ask(self, messages: Sequence[Message]) -> list[Message]:
        """Send some lines and return the answers to them, each received within the time limit."""
        if self._process is None:
            try:
                self.greet()
            except ValueError as error:
                raise BrokenEngineError(str(error)) from error
        return self._exchange(messages)

    def end(self, patience: float = 1.0) -> None:
        """Close the engine's input, and kill the processes that have not exited after `patience` seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        self._to_write.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        with contextlib.suppress(OSError):  # on POSIX, this also kills any processes that the engine started
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
        process.wait()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, start_new_session=True)
        assert process.stdin is not None
        assert process.stdout is not None
        # Not every system supports timeouts on pipes, but queues have them everywhere.
        self._to_write: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._have_read: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._rest = bytearray()
        for target, *arguments in ((_write, process.stdin, self._to_write), (_read, process.stdout, self._have_read)):
            threading.Thread(target=target, args=arguments, daemon=True).start()

    def _exchange(self, messages: Sequence[Message]) -> list[Message]:
        assert self._process is not None
        if self._rest:
            raise BrokenEngineError(
                f"the engine wrote more than one line in response to a message: {_shown(self._rest)}"
            )
        self._to_write.put("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in messages).encode())
        limit = self.timeout * (2 if messages[0]["op"] == "hello" else 1)  # a program may be slow to start
        answers: list[Message] = []
        try:
            for message in messages:
                answers.append(self._answer(message, limit))
        except BrokenEngineError as error:
            error.step = messages[len(answers)].get("step")
            raise
        except RefusedError:
            if len(messages) > 1:  # answers to the other requests may follow
                self.end(0)
            raise
        return answers

    def _answer(self, message: Message, limit: float) -> Message:
        line = self._line(message["op"], limit)
        try:
            answer: Any = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise BrokenEngineError(f"the answer to {message['op']!r} is not a JSON object: {_shown(line)}")
        if "error" in answer:
            raise BrokenEngineError(f"the engine reports an error: {str(answer['error'])[:MAX_SHOWN]}")
        if "unsupported" in answer:
            raise RefusedError(f"the engine says that it does not support {str(answer['unsupported'])[:MAX_SHOWN]}")
        if "step" in message and answer.get("step") != message["step"]:
            raise BrokenEngineError(f"the answer to {message['op']!r} is for step {answer.get('step')!r}")
        return answer

    def _line(self, op: str, limit: float) -> bytes:
        until, searched = time.monotonic() + limit, 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            if searched > LONGEST_LINE:
                raise BrokenEngineError(f"the answer to {op!r} exceeds {LONGEST_LINE >> 20} MB without a newline")
            try:
                read = self._have_read.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                half = f", only {_shown(self._rest)} without a newline" if self._rest else ""
                raise BrokenEngineError(f"no answer to {op!r} within {limit:g} s{half}") from None
            if not read:
                raise BrokenEngineError(f"the engine exited before it answered {op!r}{self._code()}")
            self._rest += read
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    def _code(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f", with exit code {self._process.wait(1)}"
        return ""


def _write(pipe: IO[bytes], lines: "queue.SimpleQueue[bytes | None]") -> None:
    with contextlib.suppress(OSError, ValueError):
        while (line := lines.get()) is not None:
            pipe.write(line)
            pipe.flush()
    with contextlib.suppress(OSError):
        pipe.close()


def _read(pipe: IO[bytes], chunks: "queue.SimpleQueue[bytes]") -> None:
    chunk = b" "
    with contextlib.suppress(OSError, ValueError):
        while chunk:
            chunk = os.read(pipe.fileno(), 1 << 16)
            chunks.put(chunk)
    pipe.close()


def _shown(text: bytes | bytearray) -> str:
    return repr(bytes(text[:MAX_SHOWN]).decode(errors="replace"))


def _greeting(hello: Message) -> Message:
    """Return the greeting with abbreviations expanded.

    Raises `ValueError` for anything that the protocol does not allow.
    """
    if hello.get("protocol") != PROTOCOL:
        raise ValueError(f"the engine speaks protocol {hello.get('protocol')!r}; this suite speaks {PROTOCOL}")
    for name in ("has", "offers", "defects"):
        value = hello.setdefault(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{name!r} in the greeting must be a list of strings, got {value!r}")
    hello["has"] = [name for one in hello["has"] for name in SHORT.get(one, [one])]
    if unknown := [one for one in hello["has"] if one not in CAPABILITIES]:
        legal = ", ".join((*SHORT, *CAPABILITIES))
        raise ValueError(f"the engine declares the unknown capability {unknown[0]!r}: choose from {legal}")
    if hello.get("answers", "steps") not in ("steps", "times"):
        raise ValueError(f"'answers' in the greeting must be 'steps' or 'times', got {hello['answers']!r}")
    if hello.get("follows") not in (None, *FILES):
        raise ValueError(f"the engine follows {hello['follows']!r}, but the releases known here are {', '.join(FILES)}")
    return hello
