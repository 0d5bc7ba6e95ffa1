"""What belongs to a graded test, and how much memory it may take in the learner's own process.

`course/sandbox/limits.py` limits a worker for good. The limit here ends with the test, so that the tests after it
still run. The limit in time is `course/sandbox/time_limit.py`. Nothing here is to be filled in.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from mini_vllm.assembly.lineup import CHECKOUT

FOLDER = str(CHECKOUT / "labs")
LATE_TESTS_ALLOWED = 3
SHORT_SECONDS = 1.0
EXTRA_BYTES = 2**30
VM_STATUS = Path("/proc/self/status")


def runs_a_test(frame: FrameType | None) -> bool:
    """Return whether a stack is inside of the graded tests, or of what they call."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(FOLDER) and not is_hook(frame):
            return True
        frame = frame.f_back
    return False


def is_hook(frame: FrameType) -> bool:
    """Return whether a frame belongs to the machinery around a test."""
    return frame.f_code.co_filename == str(Path(FOLDER, "conftest.py"))


@contextlib.contextmanager
def limited_memory(phase: int) -> Iterator[None]:
    """Let a test take 1 GiB more than is in use, where `/proc` shows how much that is.

    Phases 6 and 7 have no limit: they use torch.
    """
    used = None if phase in (6, 7) else bytes_in_use()
    if used is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = used + EXTRA_BYTES
    if before[0] == resource.RLIM_INFINITY or most < before[0]:
        resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def bytes_in_use() -> int | None:
    """Return the memory of data that the process has now; None where `/proc` does not show it."""
    try:
        lines = VM_STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:")), None)
