"""Calls a notebook's phases, each call in a new process, or returns the reference's recorded run."""

import sys
from collections.abc import Callable
from dataclasses import astuple
from typing import TypeVar

from mini_vllm.assembly.lineup import PHASE_NAMES, Lineup, parse_lineup
from mini_vllm.assembly.parts import Impl
from mini_vllm.config import EngineConfig
from mini_vllm_labs.fresh.forks import ForkServer
from mini_vllm_labs.fresh.process import FreshError, ReadyProcess, start_model_process, start_process
from mini_vllm_labs.fresh.process import in_fresh_process as in_fresh_process
from mini_vllm_labs.notebook.missing import broken_starter, code_that_ran, first_missing, notice_of
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.recorded_mark import NEED_TORCH
from mini_vllm_labs.notebook.records import recorded_result
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess
from mini_vllm_labs.runs.workloads.electives import electives_of

NO_TORCH = "It computes with PyTorch, which a browser does not have. Export your work, go on in a checkout."


def whole_lineup(text: str, phase: int) -> Lineup:
    """Return the lineup that a string describes in a phase's notebook.

    In an elective's notebook, plain `starter` and `solution` also include the electives up to that one.
    """
    lineup = parse_lineup(text)
    if phase > len(PHASE_NAMES) and text.strip() in ("starter", "solution"):
        return Lineup(*[lineup.scheduler] * phase)
    return lineup


T = TypeVar("T")


class PhaseCode:
    """The code that the notebook of a `phase` runs: a part of the `whole` lineup."""

    def __init__(self, phase: int, whole: Lineup) -> None:
        self.phase, self.whole = phase, whole
        self._start = start_process
        self.models: ForkServer | ReadyProcess | None = None

    def lineup(self, phases: int | None = None, config: EngineConfig | None = None) -> Lineup:
        """Return the lineup, reduced to phases 1 to `phases` (default: the notebook's phase); the others are absent.

        The result keeps the elective that `phases` names or, with a `config`, the electives that the config turns on.
        """
        last = self.phase if phases is None else phases
        kept = {*range(1, min(last, len(PHASE_NAMES)) + 1), *({last} if config is None else electives_of(config))}
        impls: tuple[Impl, ...] = astuple(self.whole)
        absent: Impl = "absent"
        return Lineup(*(impl if phase in kept else absent for phase, impl in enumerate(impls, start=1)))

    def kept_ready(self) -> "PhaseCode":
        """Return the same code, but with a process that is always ready for the next call, except in a browser."""
        if IN_BROWSER:
            return self
        ready = PhaseCode(self.phase, self.whole)
        ready._start = ReadyProcess(start_process).take
        return ready

    def notice(self) -> Notice | None:
        """Return a notice about a line that Python cannot parse or about the next unwritten task, or None."""
        broken, missing = broken_starter(self.lineup()), first_missing(self.lineup())
        if broken is None and missing:
            return notice_of(missing, self.phase, self.whole)
        return broken

    def call(self, lineup: Lineup, function: Callable[..., T], *arguments: object) -> T | Notice:
        """Return the function's value, the recorded value if a task is unwritten, or a `Notice`."""
        broken = broken_starter(lineup)
        if broken is not None:
            return broken
        missing = first_missing(lineup)
        if missing:
            recorded: T | Notice = recorded_result(missing, function, arguments)
            return recorded
        torch_phases = [phase for phase in NEED_TORCH if lineup[phase] != "absent"]
        if IN_BROWSER and torch_phases:
            return Notice(f"Phase {torch_phases[0]} runs on your own machine", NO_TORCH)
        try:
            start = self._take_model_process if torch_phases else self._start
            return in_fresh_process(function, *arguments, start=start)
        except FreshError as error:
            title = "This needs a task that is not written yet" if error.unwritten else "The engine did not finish"
            return Notice(title, f"{error}\n\n{code_that_ran(lineup)}")

    def _take_model_process(self) -> WorkerProcess:
        """Return a process for a call that needs torch; from the second call on, torch is already loaded."""
        if self.models is None:
            self.models = ForkServer() if sys.platform == "linux" else ReadyProcess(start_model_process)
        return self.models.take()
