"""A contender's process, from the outside."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.contender import Settings
from bench.served import Served, require_complete
from course.workloads.timed_request import TimedRequest
from mini_vllm.seams.lineup import CHECKOUT

OPENVINO = "openvino"
OPENVINO_PYTHON = CHECKOUT / ".venv-openvino" / ("Scripts" if os.name == "nt" else "bin") / "python"
OPENVINO_SERVER = CHECKOUT / "tools" / "openvino_peer" / "serve.py"
CONTENDERS = (
    "mini-vllm",
    "transformers-continuous",
    "transformers-static",
    "transformers-one-by-one",
    OPENVINO,
)


class PeerError(RuntimeError):
    """A contender could not be started, or broke off. Says what it wrote last."""


def why_missing(name: str) -> str | None:
    """Return why a contender cannot run here; None if it can."""
    if name == OPENVINO and not OPENVINO_PYTHON.exists():
        return "OpenVINO GenAI has no environment here; `python -m tools.openvino_peer` makes one (about 2 GB)"
    return None


class PeerProcess:
    """A running contender. It waits, using no CPU, while others have their round."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings
        start = [str(OPENVINO_PYTHON), str(OPENVINO_SERVER)]
        if name != OPENVINO:
            start = [sys.executable, "-m", "bench.contender", name]
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [*start, json.dumps(asdict(settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=CHECKOUT,
            env={**os.environ, "OMP_NUM_THREADS": str(settings.num_threads), "HF_HUB_OFFLINE": "1"},
        )
        self.facts: dict[str, Any] = self._read("ready")

    def serve(self, requests: Sequence[TimedRequest], say: Callable[[int], None] = lambda count: None) -> Served:
        """Let it serve a round; `say` hears how many requests are done. Raises `PeerError`."""
        assert self._process.stdin is not None
        parts = [
            [list(request.prompt_token_ids), request.num_output_tokens, request.arrival_time] for request in requests
        ]
        try:
            self._process.stdin.write(json.dumps({"requests": parts}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._error() from error
        served = Served(**self._read("served", say))
        require_complete(requests, served, self.name)
        return served

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._complaints.close()

    def _read(self, wanted: str, say: Callable[[int], None] = lambda count: None) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if wanted in message:
                answer: dict[str, Any] = message[wanted]
                return answer
            say(message["done"])
        raise self._error()

    def _error(self) -> PeerError:
        self._process.wait()
        self._complaints.seek(0)
        last = self._complaints.read().strip().splitlines()[-1:] or ["nothing"]
        return PeerError(f"{self.name} broke off; it said last: {last[0][:500]}")


def embedded_model_path() -> Path:
    """Return where the model of the course lies."""
    return CHECKOUT / "mini_vllm" / "embedded_model"
