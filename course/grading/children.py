"""Start the process of one test and wait for it."""

import os
import time

from course.sandbox.watch import waiting_seconds

GRACE_SECONDS = 2.0
NUM_TRIES, PAUSE_SECONDS = 20, 0.25
NO_PROCESS = "Not run: this system lets no further process start. Do others still run? The limit is `ulimit -u`."


def fork_patiently() -> int | None:
    """Fork, again and again for some seconds while the system lets no further process start; None if it never does."""
    for _ in range(NUM_TRIES):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(PAUSE_SECONDS)
    return None


def wait(child: int, seconds: float) -> int | None:
    """Wait for a child and return its exit status, below 0 a signal; None if it had to be killed.

    A child that switches off its own limit of `seconds` is killed a little later, by the same two clocks.
    """
    cpu_clock = ~child << 3 | 2  # as clock_getcpuclockid(3) computes it
    deadline, pause = time.monotonic() + waiting_seconds(seconds) + GRACE_SECONDS, 0.0005
    while time.monotonic() < deadline and time.clock_gettime(cpu_clock) < seconds + GRACE_SECONDS:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.01, pause * 1.3)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None
