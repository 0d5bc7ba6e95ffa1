"""Start, address and end the worker processes, from rank 0."""

import contextlib
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mini_vllm.runner.parallel.messages import WorkerFailure, receive, send

CHECKOUT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-P", "-m", "mini_vllm.runner.parallel.worker"]
SECONDS_TO_END = 5.0
Process = subprocess.Popen[bytes]


class WorkerError(RuntimeError):
    """A worker has exited, or has reported why it must."""


class Workers:
    """Ranks 1 to `size` - 1. They end when `stop` is called, when this object is deleted, and when Python exits."""

    def __init__(self, size: int, num_threads: int) -> None:
        """Start them; each computes with `num_threads` threads unless OMP_NUM_THREADS is set."""
        path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
        environment = {"OMP_NUM_THREADS": str(num_threads), **os.environ, "PYTHONPATH": path}
        self.processes = [
            subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            for _ in range(1, size)
        ]
        self.cause = ""
        self._finalizer = weakref.finalize(self, _end, self.processes)

    def send_each(self, messages: Sequence[Any]) -> None:
        """Send each worker its message. Raises `WorkerError` if one has exited."""
        for process, message in zip(self.processes, messages, strict=True):
            assert process.stdin is not None
            try:
                send(process.stdin, message)
            except (OSError, ValueError):
                raise self.post_mortem() from None

    def send(self, message: Any) -> None:
        """Send all workers the same message. Raises `WorkerError` if one has exited."""
        self.send_each([message] * len(self.processes))

    def receive(self) -> list[Any]:
        """Wait for one message of each. Raises `WorkerError` if one has exited or reports a failure."""
        answers = []
        for process in self.processes:
            assert process.stdout is not None
            try:
                answers.append(receive(process.stdout))
            except EOFError:
                raise self.post_mortem() from None
            if isinstance(answers[-1], WorkerFailure):
                raise self.post_mortem({process: answers[-1].text})
        return answers

    def stop(self, cause: str = "it was shut down") -> None:
        """End all workers; later errors name the first `cause`. May be called again."""
        self.cause = self.cause or cause
        self._finalizer()

    def post_mortem(self, known: Mapping[Process, str] | None = None) -> WorkerError:
        """Return the error with each worker's cause of death; end the workers that are left."""
        causes = [self.cause] if self.cause else []
        for rank, process in enumerate(self.processes if not self.cause else [], start=1):
            cause = (known or {}).get(process) or _cause_of_death(process)
            causes += [f"rank {rank}: {cause}"] if cause else []
        self.stop("; ".join(causes) or "no worker reported why")
        return WorkerError(f"tensor parallelism has ended, build a new engine: {self.cause}")


def _cause_of_death(process: Process) -> str | None:
    """Return why a worker ended by itself; None if it is alive, or ended because another did."""
    assert process.stdout is not None
    try:
        exit_code = process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        return None
    try:
        last = receive(process.stdout)
    except (EOFError, ValueError):
        last = None
    if isinstance(last, WorkerFailure):
        return last.text
    return f"its process ended with exit code {exit_code}" if exit_code else None


def _end(processes: Sequence[Process]) -> None:
    """Close the workers' input, which ends them; kill a worker that does not exit in time."""
    for process in processes:
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
    for process in processes:
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]
