"""The judge: every submission gets the same situations, drawn from one secret seed."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from time import monotonic
from typing import Any

from classroom.judge.families import FAMILIES, TOGETHER, Family
from classroom.judge.jail import Jail
from classroom.judge.play import down, play
from classroom.judge.results import FamilyGrade, Outcome, PhaseGrade, SubmissionGrade
from classroom.judge.submission import Submission
from classroom.judge.worker import Stage, Worker
from classroom.worker.channel import LinkDownError
from classroom.worker.link import PartError
from mini_vllm.seams.lineup import PHASE_NAMES

LOAD_SECONDS = 60.0
PHASE_SECONDS = 300.0
MORE_TIME = 4  # how much more a situation gets that was late: the machine may have been busy
MOST_LATE = 2
PARTS_OF_PHASE = {
    1: ("clamp", "schedule_step", "update_from_output"),
    2: ("kv",),
    3: ("preemption", "queue"),
    4: ("prefix cache",),
    5: ("num_new_tokens", "admits", "should_sample"),
}
Say = Callable[[str, int], None]


class Judge:
    """Grades submissions. `say(what happens, number of situations played)` hears of the progress."""

    def __init__(
        self,
        seed: str,
        jail: Jail,
        per_family: int,
        seconds: float,
        phases: Sequence[int] = range(1, len(PHASE_NAMES) + 1),
        say: Say = lambda what, done: None,
    ) -> None:
        self.seed = seed
        self.jail = jail
        self.per_family = per_family
        self.seconds = seconds
        self.phases = phases
        self.families = [family for family in FAMILIES if family.phase in phases]
        self.num_situations = len(self.families) * per_family
        self.say = say
        self._drawn: dict[tuple[int, str, int], Any] = {}

    def grade(self, submission: Submission) -> SubmissionGrade:
        """Grade one submission: each phase alone, then all that is written together."""
        start = monotonic()
        with Stage(submission.starters, self.jail) as stage:
            phases = [self.grade_phase(number, submission, stage) for number in self.phases]
            grade = SubmissionGrade(submission.name, phases, error=submission.error)
            up_to = written_in_a_row(phases)
            if up_to:
                self.say("together", self.num_situations)
                outcomes = [self.play_together(number, up_to, stage) for number in range(len(TOGETHER))]
                grade = replace(grade, together=outcomes, together_up_to=up_to)
        return replace(grade, seconds=monotonic() - start)

    def grade_phase(self, number: int, submission: Submission, stage: Stage) -> PhaseGrade:
        """Grade one phase alone."""
        families = [family for family in self.families if family.phase == number]
        content = submission.starters.get(number)
        if content is None:
            nothing = [Outcome("not played")] * self.per_family
            unplayed = [FamilyGrade(family, nothing) for family in families]
            return PhaseGrade(number, unplayed, error=submission.error or "not handed in")
        sitting = Sitting(self, number, stage)
        try:
            graded = [self.grade_family(family, sitting) for family in families]
        finally:
            sitting.close()
        return PhaseGrade(number, graded, hashlib.sha256(content).hexdigest(), sitting.error)

    def grade_family(self, family: Family, sitting: "Sitting") -> FamilyGrade:
        """Play the situations of a family, unless the file does not load or time is up."""
        outcomes = list[Outcome]()
        for number in range(self.per_family):
            done = self.families.index(family) * self.per_family + number
            self.say(f"phase {family.phase}: {family.title}", done)
            num_late = sum(outcome.status == "late" for outcome in outcomes)
            if sitting.error:
                outcomes.append(Outcome("not played", sitting.error))
            elif num_late >= MOST_LATE or monotonic() > sitting.deadline:
                outcomes.append(Outcome("not played", "Not played: the ones before took all the time there is."))
            else:
                outcomes.append(sitting.play(self.situation(family, number)))
        return FamilyGrade(family, outcomes)

    def play_together(self, number: int, up_to: int, stage: Stage) -> Outcome:
        """Play a situation with all phases up to one in the same engine."""
        situation = self._draw((0, "together", number), TOGETHER[number])
        mine = [part for phase in range(1, up_to + 1) for part in PARTS_OF_PHASE[phase]]
        with Worker(stage, self.jail) as worker:
            worker.set_deadline(LOAD_SECONDS)
            try:
                for phase in range(1, up_to + 1):
                    worker.file.call("load", phase, False)
            except (PartError, LinkDownError) as error:
                return Outcome("stopped", str(error))
            return play(replace(situation, mine=tuple(mine)), worker, self.seconds)

    def situation(self, family: Family, number: int) -> Any:
        """Return a situation of a family: the same for everybody."""
        return self._draw((family.phase, family.title, number), family.draws[number % len(family.draws)])

    def _draw(self, key: tuple[int, str, int], draw: Callable[[Random], Any]) -> Any:
        if key not in self._drawn:
            self._drawn[key] = draw(Random("/".join(map(str, (self.seed, *key)))))
        return self._drawn[key]


class Sitting:
    """One phase of one submission: its workers, a fresh one for each situation (torch is too slow for that)."""

    def __init__(self, judge: Judge, phase: int, stage: Stage) -> None:
        self.judge = judge
        self.phase = phase
        self.stage = stage
        self.error = ""
        self.deadline = monotonic() + PHASE_SECONDS
        self._worker: Worker | None = None

    @property
    def needs_torch(self) -> bool:
        return self.phase == len(PHASE_NAMES)

    def play(self, situation: Any) -> Outcome:
        """Play one situation; note in `error` if the file cannot be loaded."""
        outcome = self._play_once(situation, self.judge.seconds)
        return self._play_once(situation, MORE_TIME * self.judge.seconds) if outcome.status == "late" else outcome

    def _play_once(self, situation: Any, seconds: float) -> Outcome:
        worker = self._loaded()
        if worker is None:
            return Outcome("not played", self.error)
        outcome = play(situation, worker, seconds)
        if outcome.status != "right" or not self.needs_torch:
            self.close()
        return outcome

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _loaded(self) -> Worker | None:
        if self._worker is not None:
            return self._worker
        worker = Worker(self.stage, self.judge.jail)
        worker.set_deadline(LOAD_SECONDS)
        try:
            worker.file.call("load", self.phase, self.needs_torch)
        except PartError as error:
            self.error = f"The file cannot be loaded. {error}"
        except LinkDownError as error:
            self.error = f"The file cannot be loaded. {down(error, LOAD_SECONDS, worker, None).told}"
        if self.error:
            worker.kill()
            return None
        self._worker = worker
        return worker


def written_in_a_row(phases: Sequence[PhaseGrade]) -> int:
    """Return the last of phases 1, 2, ... that are written one after the other; the model's phase 6 does not count."""
    written = {phase.number for phase in phases if phase.is_written}
    return next((number - 1 for number in range(1, 7) if number not in written or number not in PARTS_OF_PHASE), 0)
