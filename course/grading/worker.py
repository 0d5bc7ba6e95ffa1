"""A process for the learner's code, its limits in time, and the end of everything that it started."""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.grading.channel import Event, Receiver
from mini_vllm.seams.lineup import CHECKOUT

OUTPUT_KEPT = 4000
PAUSE = 0.01
NOT_INHERITED = ("LAB_IMPL", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONWARNINGS")


class StoppedError(Exception):
    """Somebody wants the grader to end."""


class Worker:
    """Runs `python ARGUMENTS` in the checkout with an order (a JSON file) and passes on the events it sends.

    After the events: `alive` says whether it was still running when it was given up; `status` is its exit
    status (below 0 a signal), `trace` what the fault handler wrote, `output` the end of what was printed.
    """

    def __init__(self, arguments: list[str], order: dict[str, Any], stop: threading.Event) -> None:
        self._stop = stop
        self._folder = tempfile.TemporaryDirectory(prefix="mini_vllm_grade_", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        mark = secrets.token_hex(8)
        results, self._trace = folder / "results.jsonl", folder / "trace.txt"
        order = order | {"mark": mark, "results": str(results), "trace": str(self._trace)}
        (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")
        self._receiver = Receiver(results, mark)
        self._kept = b""
        self.alive = False
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=CHECKOUT,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._drain = threading.Thread(target=self._keep_the_end, daemon=True)
        self._drain.start()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._receiver.close()
        self._folder.cleanup()

    def events(self, silence: float, deadline: float) -> Iterator[Event]:
        """Yield events until "end", or until the process is dead, or silent for `silence` seconds, or late.

        Nothing of what it started is alive after that. Raises `StoppedError`.
        """
        heard = time.monotonic()
        while True:
            dead = self._process.poll() is not None
            events = self._receiver.receive()
            for event in events:
                yield event
                if event["event"] == "end":
                    self._kill()
                    return
            now = time.monotonic()
            heard = now if events else heard
            if self._stop.is_set():
                raise StoppedError
            if dead or now - heard > silence or now > deadline:
                self.alive = not dead
                self._kill()
                return
            time.sleep(PAUSE)

    @property
    def status(self) -> int:
        return self._process.wait()

    @property
    def trace(self) -> str:
        """What the fault handler wrote: where each thread was."""
        try:
            return self._trace.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    @property
    def output(self) -> str:
        """The end of what the process printed."""
        self._drain.join(timeout=1)
        return self._kept.decode(errors="replace")

    def _keep_the_end(self) -> None:
        assert self._process.stdout is not None
        while chunk := os.read(self._process.stdout.fileno(), 1 << 16):
            self._kept = (self._kept + chunk)[-OUTPUT_KEPT:]

    def _kill(self) -> None:
        try:
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()


def environment(folder: Path) -> dict[str, str]:
    """Return an environment in which two runs are the same, and in which no old bytecode is loaded."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    for name in NOT_INHERITED:
        kept.pop(name, None)
    return kept | {
        "LAB_IMPL": "starter",
        "MINI_VLLM_ORDER": str(folder / "order.json"),
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONBREAKPOINT": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
    }
