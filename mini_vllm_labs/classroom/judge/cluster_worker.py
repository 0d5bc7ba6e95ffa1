"""Runs on a worker of a Dask cluster: checks the jail, then grades."""

import hashlib
import sys
import threading
from functools import cache
from importlib import metadata
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.judge.class_run import GraderError, GradingProcess
from mini_vllm_labs.classroom.judge.jail import JailError, find_jail
from mini_vllm_labs.classroom.judge.probe import require_jail
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.runs.sandbox.channel import Message

IDLE_SECONDS = 60.0
DECIDES_POINTS = ("mini_vllm", "mini_vllm_labs", "solutions")


def grade_here(settings: dict[str, Any], course: str, task: Message) -> dict[str, Any]:
    """Return the `result` of a task, or why this worker `refused` it, or why its grading process `failed`."""
    desk = desk_for(JudgeSettings.from_json(settings), course)
    if reason := desk.refusal():
        return {"refused": reason}
    try:
        return {"result": desk.answer(task)}
    except GraderError as error:
        return {"failed": str(error)}


@cache
def desk_for(settings: JudgeSettings, course: str) -> "Desk":
    return Desk(settings, course)


class Desk:
    """The grading processes of one run on this machine. A process exits after a minute without work.

    So no process remains on this machine after the judge ends, however it ends.
    """

    def __init__(self, settings: JudgeSettings, course: str) -> None:
        self._settings = settings
        self._course = course
        self._is_checked = False
        self._lock = threading.Lock()
        self._idle: dict[GradingProcess, threading.Timer] = {}

    def refusal(self) -> str:
        """Return why this worker must not grade, or an empty string; the check runs only once."""
        with self._lock:
            if self._is_checked:
                return ""
            if course_digest() != self._course:
                return "its course, Python, torch or numpy differ from the judge's"
            try:
                if self._settings.jailed:
                    require_jail(find_jail())
            except JailError as error:
                return str(error)
            self._is_checked = True
            return ""

    def answer(self, task: Message) -> Any:
        """Give a task to an idle or new grading process, and return the answer. Raises `GraderError`."""
        with self._lock:
            process, timer = self._idle.popitem() if self._idle else (GradingProcess(self._settings), None)
        if timer is not None:
            timer.cancel()
        try:
            return process.answer(task)
        finally:
            timer = threading.Timer(IDLE_SECONDS, self._end, [process])
            timer.daemon = True
            with self._lock:
                self._idle[process] = timer
            timer.start()

    def _end(self, process: GradingProcess) -> None:
        with self._lock:
            # otherwise, the process has just been given new work
            is_idle = self._idle.get(process) is threading.current_thread()
            if is_idle:
                del self._idle[process]
        if is_idle:
            process.end()


def course_digest() -> str:
    """Return a digest of everything that affects points: the course's code, Python, torch and numpy."""
    versions = [*map(str, sys.version_info[:2]), metadata.version("torch"), metadata.version("numpy")]
    digest = hashlib.sha256(" ".join(versions).encode())
    for folder in DECIDES_POINTS:
        for path in sorted((CHECKOUT / folder).rglob("*")):
            if path.suffix in (".py", ".json", ".toml"):
                digest.update(str(path.relative_to(CHECKOUT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
