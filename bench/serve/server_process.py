"""A server in its own process: started, waited for and ended."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.error import HTTPError

from bench.peer_process import PeerError
from bench.serve.endpoint import Endpoint
from mini_vllm.assembly.lineup import CHECKOUT

START_TIMEOUT = 180.0
STOP_TIMEOUT = 60.0  # ours gives running requests 30 s
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How a server is started, and where it then answers."""

    name: str
    arguments: Sequence[str]
    endpoint: Endpoint
    environment: Mapping[str, str]


class MeasuredServer:
    """A running server. Its output is kept for the message if it fails. Raises `PeerError` if it never answers."""

    def __init__(self, command: ServerCommand, start_timeout: float = START_TIMEOUT) -> None:
        self.name, self.endpoint = command.name, command.endpoint
        self._output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=self._output,  # a file: a pipe would fill up unread
            stderr=subprocess.STDOUT,
            cwd=CHECKOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **command.environment},
        )
        try:
            self._wait_until_healthy(start_timeout)
        except BaseException:
            self.stop()
            raise

    def get(self, path: str, timeout: float = 30.0) -> str:
        """Return the body of a GET. Raises `OSError` if there is no answer, or one with an error status."""
        from urllib.request import urlopen  # here: it takes longer to import than `--help` to print

        with urlopen(self.endpoint.base_url + path, timeout=timeout) as answer:
            text: str = answer.read().decode()
        return text

    def stop(self) -> None:
        """End the process, by force if it does not end by itself."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._output.close()

    def last_words(self) -> str:
        """Return the last lines that the process printed."""
        self._output.seek(0)
        return " / ".join(line.strip() for line in self._output.read().strip().splitlines()[-3:])[:500] or "nothing"

    def _wait_until_healthy(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise PeerError(f"{self.name} exited early; its last lines: {self.last_words()}")
            try:
                self.get("/health")
            except HTTPError as error:  # before OSError, its base class
                raise PeerError(f"{self.name}: /health answered {error.code}: {error.reason}") from error
            except OSError:
                time.sleep(POLL_SECONDS)
            else:
                return
        raise PeerError(f"{self.name} did not answer within {limit:g} seconds; its last lines: {self.last_words()}")


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
