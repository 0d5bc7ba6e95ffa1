"""Reports calls from a server into a learner's code that never return, with the line and its variables."""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_stack
from types import FrameType

from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.explain import hint_for, lines_of
from mini_vllm_labs.runs.sandbox.frames import is_learners

LIMIT, PAUSE = 8.0, 0.25  # how many seconds a call may take, and how many seconds pass between two checks
NOTICE = 4.0  # wall-clock seconds before a call is reported; doubled each time, because the machine may be slow
IDLE, WAITING_FACTOR = 0.1, 10  # a call that used less CPU time than this was only waiting; one that polls may use more


@dataclass(eq=False)
class WatchedCall:
    """A call into a starter (its outermost frame), and the time since it was first seen."""

    outermost: FrameType
    cpu_start: float
    num_looks: int = 0
    began: float = field(default_factory=time.monotonic)
    next_notice: float = field(default_factory=lambda: NOTICE)

    def notice(self, thread: int) -> str:
        """Return a report about a slow call, or an empty string if no report is due."""
        seconds = time.monotonic() - self.began
        if seconds < self.next_notice:
            return ""
        self.next_notice = 2 * seconds
        cpu_seconds = cpu_time(thread) - self.cpu_start
        return (
            f"One call into your code has taken {seconds:.0f} seconds so far, {cpu_seconds:.1f} of them CPU time. Now:"
        )

    def verdict(self, thread: int) -> tuple[str, str] | None:
        """Check the call again; return the problem and a hint, or None if there is no problem."""
        self.num_looks += 1
        cpu_seconds = cpu_time(thread) - self.cpu_start
        if cpu_seconds >= LIMIT:
            words = f"Your code was still running after {LIMIT:g} seconds of CPU time in one call:"
            return words, hint_for(OutOfTime())
        limit = LIMIT if cpu_seconds < IDLE else WAITING_FACTOR * LIMIT
        # Count checks rather than seconds, because no code runs while the machine is asleep.
        if self.num_looks * PAUSE >= limit:
            return f"Your code has waited for {limit:g} seconds in one call:", "what does it wait for?"
        return None


def watch_calls(give_up: Callable[[str], None], notify: Callable[[str], None]) -> None:
    """Start a thread that calls `give_up` with an explanation if a call never returns.

    Before that, `notify` receives a report about a slow call, and an empty string if the call returns after all.
    """
    threading.Thread(target=_watch, args=(give_up, notify), name="mini-vllm-calls", daemon=True).start()


def _watch(give_up: Callable[[str], None], notify: Callable[[str], None]) -> None:
    calls: dict[int, WatchedCall] = {}
    told: WatchedCall | None = None
    while True:
        time.sleep(PAUSE)
        before, calls = calls, {}
        for thread, frame in sys._current_frames().items():
            frames = [(one, line) for one, line in walk_stack(frame) if is_learners(one.f_code.co_filename)][::-1]
            if not frames:
                continue
            call = before.get(thread)
            if call is None or call.outermost is not frames[0][0]:
                call = WatchedCall(frames[0][0], cpu_time(thread))
            calls[thread] = call
            if verdict := call.verdict(thread):
                words, hint = verdict
                give_up("\n".join([words, *lines_of(frames, in_loop=True), f"Hint: {hint}"]))
                return
            if words := call.notice(thread):
                told = call
                notify("\n".join([words, *lines_of(frames, in_loop=True)]))
        if told and told not in calls.values():
            told = None
            notify("")


def cpu_time(thread: int) -> float:
    """Return the CPU time of a thread, or of the whole process if the system does not distinguish them."""
    numbers = {each.ident: each.native_id for each in threading.enumerate()}
    try:
        fields = Path(f"/proc/self/task/{numbers.get(thread)}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.process_time()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
