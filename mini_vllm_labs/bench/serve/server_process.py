"""The servers in a comparison (our own, `transformers serve`, OpenVINO GenAI), each in its own process."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.installation import pip_install
from mini_vllm_labs.bench import peer_process
from mini_vllm_labs.bench.backend import BLOCK_SIZE, BackendSettings
from mini_vllm_labs.bench.peer_process import PeerError
from mini_vllm_labs.bench.serve.text_requests import Endpoint

OURS, TRANSFORMERS, OPENVINO = "mini-vllm", "transformers-serve", peer_process.OPENVINO
SERVERS = (OURS, TRANSFORMERS, OPENVINO)
HOST = "127.0.0.1"
PAGE_SIZE = 32
IGNORE_EOS = {"ignore_eos": True}
TO_FULL_LENGTH = json.dumps({"do_sample": False, "eos_token_id": -1, "pad_token_id": 0})  # no token has the id -1
"""`transformers serve` takes no `ignore_eos`, but a whole generation config with every request."""
START_TIMEOUT = 180.0
STOP_TIMEOUT = 60.0  # our server gives running requests 30 s to finish
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How to start a server, and its address."""

    name: str
    arguments: Sequence[str]
    endpoint: Endpoint
    environment: Mapping[str, str]


def why_missing(name: str) -> str | None:
    """Return why a server cannot run here, or None if it can. Raises `ValueError` for an unknown name."""
    if name == OPENVINO:
        return peer_process.why_missing(OPENVINO)
    if name not in SERVERS:
        raise ValueError(f"server must be one of {', '.join(SERVERS)}, got {name!r}")
    wanted = ["fastapi", "uvicorn", *(["openai", "accelerate"] if name == TRANSFORMERS else [])]
    missing = [module for module in wanted if find_spec(module) is None]
    return f"it needs `{pip_install(*missing)}`" if missing else None


def server_command(name: str, settings: BackendSettings) -> ServerCommand:
    """Return how to start a server on a free port, with the model, threads and KV cache size of `settings`."""
    port = free_port()
    match name:
        case "transformers-serve":
            arguments, model = transformers_arguments(settings, port), settings.model
        case "openvino":
            arguments, model = openvino_arguments(settings, port), OPENVINO
        case _:
            arguments, model = our_arguments(settings, port), OURS
    extra_body = {"generation_config": TO_FULL_LENGTH} if name == TRANSFORMERS else IGNORE_EOS
    endpoint = Endpoint(f"http://{HOST}:{port}", model, extra_body=extra_body)
    return ServerCommand(name, arguments, endpoint, settings.environment())


def our_arguments(settings: BackendSettings, port: int) -> list[str]:
    """Return the command line of our server."""
    options = {
        "host": HOST,
        "port": port,
        "served-model-name": OURS,
        "lineup": settings.lineup,
        "max-num-seqs": settings.max_num_seqs,
        "max-num-batched-tokens": settings.max_num_batched_tokens,
        "block-size": BLOCK_SIZE,
        "num-gpu-blocks": settings.kv_cache_tokens // BLOCK_SIZE + 1,
        "dtype": settings.dtype,
    }
    # Without a model, the lineup has no phase 6. The fake model's letters are enough, and no other text is as quick to
    # produce.
    model = settings.model or "--fake-model"
    return [
        sys.executable,
        "-m",
        "mini_vllm_labs.cli",
        "serve",
        model,
        *(f"--{name}={value}" for name, value in options.items()),
    ]


def transformers_arguments(settings: BackendSettings, port: int) -> list[str]:
    """Return the command line of `transformers serve` with continuous batching."""
    options = {
        "host": HOST,
        "port": port,
        "device": "cpu",
        "dtype": settings.dtype,
        "cb-block-size": PAGE_SIZE,
        "cb-num-blocks": settings.kv_cache_tokens // PAGE_SIZE + 4,
        "cb-max-batch-tokens": settings.max_num_batched_tokens,
    }
    program = str(Path(sys.executable).with_name("transformers"))
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [program, "serve", settings.model, "--continuous-batching", *flags]


def openvino_arguments(settings: BackendSettings, port: int) -> list[str]:
    """Return the command line of OpenVINO GenAI's front end, in its own environment."""
    front = [str(peer_process.OPENVINO_PYTHON), "-m", "mini_vllm_labs.bench.serve.openvino_front"]
    return [*front, json.dumps(asdict(settings)), str(port)]


class MeasuredServer:
    """A running server.

    The server's output is kept, and is included in the error message if the server fails. Raises `PeerError` if the
    server never answers.
    """

    def __init__(self, command: ServerCommand, start_timeout: float = START_TIMEOUT) -> None:
        self.name, self.endpoint = command.name, command.endpoint
        self._output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=self._output,  # a file, because a pipe that nobody reads would fill up
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
        """Return the body of the response to a GET request.

        Raises `OSError` if there is no response, or if the response has an error status.
        """
        from urllib.request import urlopen  # imported here, because the import takes longer than printing `--help`

        with urlopen(self.endpoint.base_url + path, timeout=timeout) as answer:
            text: str = answer.read().decode()
        return text

    def stop(self) -> None:
        """End the process, by force if it does not exit on its own."""
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
            except HTTPError as error:  # caught before OSError, its base class
                raise PeerError(f"{self.name}: /health answered {error.code}: {error.reason}") from error
            except OSError:
                time.sleep(POLL_SECONDS)
            else:
                return
        raise PeerError(f"{self.name} did not answer within {limit:g} seconds; its last lines: {self.last_words()}")


def free_port() -> int:
    """Return a port on this machine on which no process is listening."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
