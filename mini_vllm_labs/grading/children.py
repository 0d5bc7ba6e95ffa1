"""Starts the forked processes in which the worker runs tests, and waits for them."""

import os
import time

from mini_vllm_labs.runs.sandbox.watch import waiting_seconds

GRACE_SECONDS = 2.0  # the test's own limit must expire first, because its error can name the line
NUM_TRIES, PAUSE_SECONDS = 20, 0.25  # five seconds in total, in which the same user's old processes may exit


def fork_patiently() -> int | None:
    """Fork, retrying for five seconds while the system refuses new processes; return None if it never allows one."""
    for _ in range(NUM_TRIES):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(PAUSE_SECONDS)
    return None


def wait(child: int, seconds: float, num_passed: memoryview | None = None) -> int | None:
    """Wait for a child and return its exit status (negative for a signal), or None if this function killed it.

    A child that disables its own limit of `seconds` is killed a little later, measured in both wall time and CPU time.
    Each change in `num_passed` means that another test has started.
    """
    cpu_clock = ~child << 3 | 2  # computed as in clock_getcpuclockid(3)
    seen, begun, spent, pause = 0, time.monotonic(), 0.0, 0.0005
    limit = seconds + GRACE_SECONDS
    while time.monotonic() < begun + waiting_seconds(seconds) + GRACE_SECONDS:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if num_passed is not None and num_passed[0] > seen:
            seen, begun, spent = num_passed[0], time.monotonic(), time.clock_gettime(cpu_clock)
        if time.clock_gettime(cpu_clock) - spent >= limit:
            break
        time.sleep(pause)
        pause = min(0.01, pause * 1.3)  # most tests end immediately, and a long one must not cause busy-waiting
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None
