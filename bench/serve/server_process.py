"""A server in its own process: started, waited for, watched and ended."""

import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from bench.peer_process import PeerError
from bench.serve.endpoint import Endpoint
from mini_vllm.assembly.lineup import CHECKOUT

if TYPE_CHECKING:
    import psutil

START_TIMEOUT = 180.0
STOP_TIMEOUT = 60.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How a server is started, and where it then answers."""

    name: str
    arguments: Sequence[str]
    endpoint: Endpoint
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Resources:
    """What a server's processes hold: bytes of memory, threads, open files and connections."""

    rss: int
    num_threads: int
    num_fds: int


class ServerProcess:
    """A running server. Its output is kept for the message if it fails. Raises `PeerError` if it never answers."""

    def __init__(self, command: ServerCommand, start_timeout: float = START_TIMEOUT) -> None:
        import psutil

        self.name, self.endpoint = command.name, command.endpoint
        self._output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=CHECKOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **command.environment},
        )
        self._watched = psutil.Process(self._process.pid)
        try:
            self._wait_until_healthy(start_timeout)
        except BaseException:
            self.stop()
            raise

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def resources(self) -> Resources:
        """Return what the server and the processes that it has started hold now."""
        import psutil

        all_held = [held_by(self._watched)]
        for process in self._watched.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                all_held.append(held_by(process))
        return Resources(*map(sum, zip(*all_held, strict=True)))

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server and its running processes have taken."""
        times = [process.cpu_times() for process in (self._watched, *self._watched.children(recursive=True))]
        return float(sum(of.user + of.system for of in times))

    def get(self, path: str, timeout: float = 30.0) -> str:
        """Return what the server says to a GET. Raises `OSError` if it does not answer, or with an error."""
        with urllib.request.urlopen(self.endpoint.base_url + path, timeout=timeout) as answer:
            text: str = answer.read().decode()
        return text

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = STOP_TIMEOUT) -> int | None:
        """Wait for the process to end; return its exit code, None if it has not ended within `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """End the process, by force if it does not end by itself."""
        if self.is_running:
            self.terminate()
            if self.wait() is None:
                self._process.kill()
                self._process.wait()
        self._output.close()

    def last_words(self) -> str:
        """Return the last lines that the process printed."""
        self._output.seek(0)
        return " / ".join(line.strip() for line in self._output.read().strip().splitlines()[-3:])[:500] or "nothing"

    def _wait_until_healthy(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not self.is_running:
                raise PeerError(f"{self.name} exited early; its last lines: {self.last_words()}")
            try:
                self.get("/health")
            except HTTPError as error:
                raise PeerError(f"{self.name}: /health answered {error.code}: {error.reason}") from error
            except OSError:
                time.sleep(POLL_SECONDS)
            else:
                return
        raise PeerError(f"{self.name} did not answer within {limit:g} seconds; its last lines: {self.last_words()}")


def held_by(process: "psutil.Process") -> tuple[int, int, int]:
    """Return the memory, the threads and the open files of one process."""
    with process.oneshot():
        num_fds = 0 if os.name == "nt" else process.num_fds()
        return process.memory_info().rss, process.num_threads(), num_fds


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
