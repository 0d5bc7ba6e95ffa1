"""The limits of a process apply, and without a limit nothing changes."""

import sys

import pytest

from mini_vllm_labs.runs.sandbox.worker import WorkerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="not every system limits a process's data")
LIMIT = "from mini_vllm_labs.runs.sandbox.limits import *; limit_resources(Limits({}))\n"


def run(limits: str, program: str) -> tuple[int, str]:
    with WorkerProcess([sys.executable, "-c", LIMIT.format(limits) + program], has_channel=False) as child:
        assert child.wait(60)
        return child.status, child.output


@pytest.mark.parametrize(
    ("limits", "program", "words"),
    [
        ("memory_bytes=2**29", "bytearray(2**30)", "MemoryError"),
        ("file_bytes=100", "import tempfile; tempfile.TemporaryFile().write(b'x' * 10**6)", "File too large"),
        ("num_open_files=20", "files = [open('/dev/null') for _ in range(30)]", "Too many open files"),
    ],
)
def test_a_limit_holds(limits: str, program: str, words: str) -> None:
    status, output = run(limits, program)
    assert status == 1
    assert words in output


def test_cpu_time_is_limited() -> None:
    status, _ = run("cpu_seconds=1", "while True: pass")
    assert status < 0


def test_no_limits_change_nothing() -> None:
    assert run("", "print(len(bytearray(2**30)))") == (0, f"{2**30}\n")
