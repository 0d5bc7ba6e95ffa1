"""Watches the learner's code in a server: a call into it that does not end is told with its line and variables."""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from course.sandbox.errors import OutOfTime
from course.sandbox.explain import hint_for, lines_of
from course.sandbox.frames import is_learners

LIMIT, PAUSE, IDLE = 8.0, 0.25, 0.1
"""Seconds that a call may take; between two looks; and of CPU time below which a call has only waited."""
Frames = list[tuple[FrameType, int]]


@dataclass
class Call:
    """A call into a starter, its outermost frame, since it was first seen."""

    outermost: FrameType
    cpu_start: float
    num_looks: int = 0

    def verdict(self, thread: int) -> str:
        """Return what is wrong with this call after another look; empty if nothing is."""
        self.num_looks += 1
        cpu_seconds = cpu_time(thread) - self.cpu_start
        if cpu_seconds >= LIMIT:
            return f"Your code was still running after {LIMIT:g} seconds of CPU time in one call"
        # Looks are counted and not seconds: while the machine sleeps, no code can run.
        if self.num_looks * PAUSE >= LIMIT and cpu_seconds < IDLE:
            return f"Your code has waited for {LIMIT:g} seconds in one call"
        return ""


def watch_calls(give_up: Callable[[str], None]) -> None:
    """Start a thread that calls `give_up` with an explanation once any thread is in a call that does not end."""
    threading.Thread(target=_watch, args=(give_up,), name="mini-vllm-calls", daemon=True).start()


def _watch(give_up: Callable[[str], None]) -> None:
    calls: dict[int, Call] = {}
    while True:
        time.sleep(PAUSE)
        before, calls = calls, {}
        for thread, frame in sys._current_frames().items():
            if not (frames := learners_frames_of(frame)):
                continue
            outermost, known = frames[0][0], before.get(thread)
            is_same = known is not None and known.outermost is outermost
            call = calls[thread] = known if known and is_same else Call(outermost, cpu_time(thread))
            if verdict := call.verdict(thread):
                hint = f"Hint: {hint_for(OutOfTime())}" if "CPU" in verdict else "Hint: what does it wait for?"
                give_up("\n".join([f"{verdict}:", *lines_of(frames, in_loop=True), hint]))
                return


def learners_frames_of(frame: FrameType | None) -> Frames:
    """Return the learner's frames of a running stack with their lines, outermost first."""
    frames: Frames = []
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            frames.insert(0, (frame, frame.f_lineno))
        frame = frame.f_back
    return frames


def cpu_time(thread: int) -> float:
    """Return the CPU time of a thread, or of the whole process where the system does not tell them apart."""
    numbers = {each.ident: each.native_id for each in threading.enumerate()}
    try:
        fields = Path(f"/proc/self/task/{numbers.get(thread)}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.process_time()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
