"""Measures how much of this process's CPU capacity other processes use."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

WINDOW = 0.1  # seconds between two measurements
MAX_WINDOW = 0.5  # after a longer pause, a measurement mostly describes the past
NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")  # psutil also counts the last two in `user` and `nice`


class CPUReading(NamedTuple):
    """Seconds since a fixed moment: wall time, all processes' time on our CPUs, and this process's CPU time."""

    clock: float
    all_work: float
    own_work: float


def read_now() -> CPUReading:
    """Return the current readings of the system's clocks."""
    times = dict(enumerate(psutil.cpu_times(percpu=True)))
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(times)
    work = (
        seconds
        for number in usable & times.keys()
        for name, seconds in times[number]._asdict().items()
        if name not in NOT_BUSY
    )
    return CPUReading(time.perf_counter(), sum(work), time.process_time())


class Neighbours:
    """The average number of CPUs that other processes keep busy, smoothed over several readings."""

    def __init__(
        self, read: Callable[[], CPUReading] = read_now, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.read, self.clock = read, clock
        self.last, self.busy_cpus = read(), 0.0

    def look(self) -> bool:
        """Take a reading if the last one is old enough; return whether `busy_cpus` has a new value."""
        if self.clock() - self.last.clock < WINDOW:
            return False
        before, self.last = self.last, self.read()
        elapsed, all_work, own_work = (now - then for now, then in zip(self.last, before, strict=True))
        if elapsed > MAX_WINDOW:
            return False
        self.busy_cpus = (self.busy_cpus + max(0.0, all_work - own_work) / elapsed) / 2
        return True
