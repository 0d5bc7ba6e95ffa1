"""Starts backend processes and talks to them: the parent's side of `backend_process`."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.release_rules import RELEASES
from mini_vllm_labs.bench.backend import ALL_GREEDY, BackendSettings, Load, OnProgress, ServedRound, require_complete
from mini_vllm_labs.bench.case import PeerError as PeerError
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

OPENVINO, LLAMA_CPP, XLLAMACPP, VLLM = "openvino", "llama-cpp", "xllamacpp", "vllm"
BINARIES = "Scripts" if os.name == "nt" else "bin"
OPENVINO_PYTHON = CHECKOUT / ".venv-openvino" / BINARIES / "python"
LLAMA_CPP_PYTHON = CHECKOUT / ".venv-llama-cpp" / BINARIES / "python"
XLLAMACPP_PYTHON = CHECKOUT / ".venv-xllamacpp" / BINARIES / "python"
VLLM_PYTHON = CHECKOUT / ".venv-vllm" / BINARIES / "python"
TRANSFORMERS = ("transformers-continuous", "transformers-static", "transformers-one-by-one")
BACKENDS = ("mini-vllm", *TRANSFORMERS, OPENVINO, LLAMA_CPP)
PEERS = "python -m mini_vllm_labs.upkeep"


def vllm_python(release: str = RELEASES[0]) -> Path:
    """Return the path to the Python in this vLLM release's environment, which may not exist yet."""
    return VLLM_PYTHON if release == RELEASES[0] else CHECKOUT / f".venv-vllm-{release}" / BINARIES / "python"


def why_missing(name: str, release: str = RELEASES[0]) -> str | None:
    """Return why a backend cannot run here, or None if it can. `release` is the vLLM release."""
    if name == OPENVINO and not OPENVINO_PYTHON.exists():
        return f"OpenVINO GenAI is not installed here; `{PEERS}.openvino_peer` installs it (about 2 GB)"
    if name == LLAMA_CPP and not LLAMA_CPP_PYTHON.exists():
        return f"llama.cpp is not installed here; `{PEERS}.llama_cpp_peer` builds it (15 minutes, 170 MB)"
    if name == XLLAMACPP and not XLLAMACPP_PYTHON.exists():
        return f"llama.cpp's server is not installed here; `{PEERS}.llama_cpp_peer --wheel` installs it (170 MB)"
    if name == VLLM and not vllm_python(release).exists():
        command = f"{PEERS}.vllm_peer" if release == RELEASES[0] else f"{PEERS}.vllm_peer {release}"
        return f"vLLM {release}'s scheduler is not installed here; `{command}` installs it (about 300 MB)"
    return None


def chosen_peers(text: str, known: Sequence[str]) -> list[str]:
    """Parse `--peers`. Raises `ValueError` for a name that is not in `known`."""
    names = [] if text == "none" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ValueError(f"--peers {name}: choose from {', '.join(known)}, or 'none'")
    return names


class JsonLines:
    """Runs a Python module in another environment; the module writes JSON lines to stdout and may read them from
    stdin."""

    def __init__(self, name: str, python: Path | str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(python), "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,  # a file, because an unread pipe fills up and blocks the process
            text=True,
            cwd=CHECKOUT,
            env={**os.environ, **environment},
        )

    def __iter__(self) -> Iterator[Any]:
        """Yield the messages until the process exits. Raises `PeerError` if the process fails."""
        assert self._process.stdout is not None
        yield from map(json.loads, self._process.stdout)
        if self._process.wait() != 0:
            raise self.error()

    def send(self, message: Any) -> None:
        """Write a message to the process. Raises `PeerError` if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self.error() from error

    def error(self) -> PeerError:
        self._process.wait()
        self._stderr.seek(0)
        last = self._stderr.read().strip().splitlines()[-1:] or ["nothing"]
        return PeerError(f"{self.name} exited early; its last line: {last[0][:500]}")

    def resident_bytes(self) -> int:
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # ends the loop in which the process reads its input
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()


class PeerProcess:
    """A running backend process. The process waits without using CPU time while other backends serve their rounds."""

    def __init__(self, name: str, settings: BackendSettings) -> None:
        self.name, self.settings = name, settings
        pythons = {OPENVINO: OPENVINO_PYTHON, LLAMA_CPP: LLAMA_CPP_PYTHON, XLLAMACPP: XLLAMACPP_PYTHON}
        python = pythons.get(name, sys.executable)
        arguments = ["mini_vllm_labs.bench.backend_process", name, json.dumps(asdict(settings))]
        self._lines = JsonLines(name, python, arguments, {**settings.environment(), "HF_HUB_OFFLINE": "1"})
        self.facts: dict[str, Any] = self._read("ready")

    def serve(
        self,
        requests: Sequence[TimedRequest],
        on_progress: OnProgress = lambda count: None,
        load: Load = ALL_GREEDY,
    ) -> ServedRound:
        """Serve a round; `on_progress` receives the number of finished requests. Raises `PeerError`."""
        parts = [(list(one.prompt_token_ids), one.num_output_tokens, one.arrival_time) for one in requests]
        self._lines.send({"requests": parts, "load": asdict(load)})
        served = ServedRound(**self._read("served", on_progress))
        require_complete(requests, served, self.name)
        return served

    def resident_bytes(self) -> int:
        """Return how much memory the process currently holds."""
        return self._lines.resident_bytes()

    def close(self) -> None:
        self._lines.close()

    def _read(self, key: str, on_progress: OnProgress = lambda count: None) -> dict[str, Any]:
        for message in self._lines:
            if key in message:
                answer: dict[str, Any] = message[key]
                return answer
            on_progress(message["done"])
        raise self._lines.error()
