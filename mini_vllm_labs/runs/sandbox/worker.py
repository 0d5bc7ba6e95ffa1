"""The parent's side of a process for untrusted code: starts it, exchanges messages, and ends the whole group."""

import contextlib
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import BinaryIO, Self

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.sandbox.channel import CHUNK, MAX_BYTES, Channel, ChannelError, Message, decoded

OUTPUT_BYTES = 4000
MAX_QUEUED = 16  # further messages stay in the pipe and do not take up memory here
POLL_SECONDS = 0.05  # `receive` waits on a queue, which cannot show that the process has exited
GRACE_SECONDS = 1.0


class WorkerProcess:
    """A child process in a separate process group, with a temporary folder that is deleted at the end.

    `command` runs in `cwd`. A program that calls `channel.take_stdio` exchanges messages over its stdin and stdout and
    prints to stderr. If `has_channel` is false, stdin is empty and stdout is treated as output. Only the first and last
    `output_bytes` / 2 bytes of the output are stored. `pass_fds` (POSIX) lists the file descriptors that stay open in
    the child. Leaving the `with` block kills the process group. A child that has left the group survives, unless the
    command runs in a jail.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = CHECKOUT,
        has_channel: bool = True,
        max_bytes: int = MAX_BYTES,
        output_bytes: int = OUTPUT_BYTES,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="mini_vllm_worker_", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self.deadline: float | None = None
        self._output = Output(output_bytes)
        self._inbox = Queue[bytes | ChannelError](MAX_QUEUED)
        self._channel: Channel | None = None
        self._is_killed = False
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            bufsize=0,
            stdin=subprocess.PIPE if has_channel else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if has_channel else subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        if has_channel:
            self._channel = self._open_channel(max_bytes)
        self._threads = [threading.Thread(target=self._drain, daemon=True)]
        if has_channel:
            self._threads.append(threading.Thread(target=self._receive_all, daemon=True))
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def status(self) -> int:
        """Wait for the process to end and return its exit status, which is negative if a signal ended it."""
        return self._process.wait()

    @property
    def output(self) -> str:
        """The output of the process, with the middle of a long output cut out."""
        self._threads[0].join(GRACE_SECONDS)  # a child that has left the group may keep the pipe open
        return self._output.text()

    def send(self, message: Message) -> None:
        """Send a message before `deadline`. Raises `ChannelError`, or `ValueError` if the message cannot be sent."""
        assert self._channel is not None
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise ChannelError("timeout", "no answer in time")
        self._channel.send(message, self.deadline)

    def receive(self, seconds: float | None = None) -> Message:
        """Return the next message, waiting until `deadline` but at most `seconds`. Raises `ChannelError`."""
        return decoded(self.receive_encoded(seconds))

    def receive_encoded(self, seconds: float | None = None) -> bytes:
        """Return the next message without the decoding that `receive` does."""
        limits = [] if self.deadline is None else [self.deadline]
        limits += [] if seconds is None else [time.monotonic() + seconds]
        while True:
            left = min([limit - time.monotonic() for limit in limits], default=POLL_SECONDS)
            if left <= 0:
                raise ChannelError("timeout", "no answer in time")
            with contextlib.suppress(Empty):
                return self._next(min(left, POLL_SECONDS))
            if not self.is_running:
                self.kill()  # its children may keep the pipe open, and then end-of-file never arrives
                with contextlib.suppress(Empty):  # its last message may still be on its way
                    return self._next(GRACE_SECONDS)
                raise ChannelError("closed", "the process has exited")

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the process to end, and return whether it did."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False

    def kill(self) -> None:
        if not self._is_killed:
            self._is_killed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill the process group, close the channel, and delete the folder."""
        self.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        until = time.monotonic() + GRACE_SECONDS
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < until:
            with contextlib.suppress(Empty):  # a flood of messages may have filled the queue
                self._inbox.get(timeout=0.001)
        self._temporary.cleanup()

    def _next(self, seconds: float) -> bytes:
        item = self._inbox.get(timeout=seconds)
        if isinstance(item, ChannelError):
            if item.reason == "closed":
                self.wait(GRACE_SECONDS)
            raise item
        return item

    def _open_channel(self, max_bytes: int) -> Channel:
        # The mark is secret, so that output from the code cannot imitate a message.
        stdin, stdout, mark = self._process.stdin, self._process.stdout, secrets.token_hex(8)
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(OSError):  # the process may already have exited; `receive` reports that
            os.write(stdin.fileno(), mark.encode() + b"\n")
        if os.name == "posix":  # a process that does not read its input must not block its parent
            os.set_blocking(stdin.fileno(), False)
        return Channel(stdout.fileno(), stdin.fileno(), mark, max_bytes)

    def _receive_all(self) -> None:
        assert self._channel is not None
        assert self._process.stdout is not None
        with self._process.stdout:
            while True:
                try:
                    self._inbox.put(self._channel.receive_encoded())
                except ChannelError as error:
                    self._inbox.put(error)
                    if error.reason == "closed":
                        return

    def _drain(self) -> None:
        pipe = self._process.stdout if self._channel is None else self._process.stderr
        assert pipe is not None
        with pipe:
            self._output.read(pipe)  # type: ignore[arg-type]


class Output:
    """Stores the beginning and the end of a process's output, however long it is."""

    def __init__(self, num_bytes: int) -> None:
        self._half = num_bytes // 2
        self._head = b""
        self._tail = b""
        self._total = 0

    def read(self, pipe: BinaryIO) -> None:
        """Read a pipe to its end."""
        while chunk := os.read(pipe.fileno(), CHUNK):
            self._total += len(chunk)
            missing = self._half - len(self._head)
            self._head += chunk[:missing]
            self._tail = (self._tail + chunk[missing:])[-self._half :]

    def text(self) -> str:
        left_out = self._total - len(self._head) - len(self._tail)
        cut = f"\n[... {left_out:,} bytes left out ...]\n".encode() if left_out else b""
        return (self._head + cut + self._tail).decode(errors="replace")
