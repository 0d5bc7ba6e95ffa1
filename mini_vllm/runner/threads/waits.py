"""Makes the threads of GCC's OpenMP library sleep instead of spin while they wait for each other."""

import ctypes
import os
from collections.abc import Callable, Sequence
from threading import Event, Thread
from weakref import finalize


class ShortWaits:
    """While short waits are on, waiting OpenMP threads give up their CPUs after about 1 us; otherwise, after
    `GOMP_SPINCOUNT` polls.

    libgomp reads the spin count only once, when it is loaded. But a thread polls only 100 times while a process has
    more OpenMP threads than CPUs (GCC's libgomp manual, "GOMP_SPINCOUNT"). So we keep a team of idle threads, one more
    than there are CPUs, which uses no CPU time. `libraries` contains the path of torch's libgomp, or is empty if torch
    uses a different library.
    """

    def __init__(self, libraries: Sequence[str]) -> None:
        self.library = ctypes.CDLL(libraries[0]) if libraries else None
        self.crowd: tuple[Callable[[], object], Thread] | None = None

    def switch(self, *, on: bool) -> None:
        """Turn short waits on or off."""
        if self.library is None or on == (self.crowd is not None):
            return
        if self.crowd is None:
            leave = Event()
            thread = Thread(target=self._crowd, args=(self.library, leave), name="mini-vllm-crowd", daemon=True)
            self.crowd = finalize(self, leave.set), thread  # an engine must not leave threads running when it ends
            thread.start()
            return
        (end, thread), self.crowd = self.crowd, None
        end()
        thread.join()  # libgomp then ends its team of threads

    @staticmethod
    def _crowd(library: ctypes.CDLL, leave: Event) -> None:
        # a function without side effects, run by every thread
        nothing = ctypes.cast(library.omp_get_level, ctypes.c_void_p)
        size = len(os.sched_getaffinity(0)) + 1
        library.GOMP_parallel(nothing, None, ctypes.c_uint(size), ctypes.c_uint(0))
        leave.wait()
