"""The judge: grades every submission on the same situations, drawn from one secret seed."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from time import monotonic

from classroom.judge.groups import TEST_GROUPS, TOGETHER, TestGroup
from classroom.judge.jail import Jail
from classroom.judge.play import outcome_of_error, play
from classroom.judge.question import Question
from classroom.judge.recorded_runs import Draw, together
from classroom.judge.results import GroupGrade, Outcome, PhaseGrade, SubmissionGrade
from classroom.judge.submission import Submission
from classroom.judge.worker import JailedWorker, SubmissionDir, WorkerError
from course.sandbox.channel import ChannelError
from mini_vllm.assembly.lineup import PHASE_NAMES

LOAD_SECONDS = 60.0
PHASE_SECONDS = 300.0
SUBMISSION_SECONDS = 600.0
MORE_TIME = 4  # factor for the second try of a situation that was late: the machine may have been busy
MAX_TIMEOUTS = 2
LAST_WITHOUT_MODEL = 5
PHASES_WITH_TENSORS = (6, 7)
TIME_IS_UP = "Not played: the situations before took all the time."
OnProgress = Callable[[str, int], None]


class Judge:
    """Grades submissions. `on_progress` is called with the current activity and the number of situations played."""

    def __init__(
        self,
        seed: str,
        jail: Jail,
        per_group: int,
        seconds: float,
        phases: Sequence[int] = range(1, len(PHASE_NAMES) + 1),
        on_progress: OnProgress = lambda what, done: None,
        submission_seconds: float = SUBMISSION_SECONDS,
    ) -> None:
        self.seed = seed
        self.jail = jail
        self.per_group = per_group
        self.seconds = seconds
        self.phases = phases
        self.groups = [group for group in TEST_GROUPS if group.phase in phases]
        self.num_situations = len(self.groups) * per_group
        self.on_progress = on_progress
        self.submission_seconds = submission_seconds
        self._deadline = float("inf")
        self._drawn: dict[tuple[int, str, int], Question] = {}

    def grade(self, submission: Submission) -> SubmissionGrade:
        """Grade one submission: each phase alone, then all written phases together."""
        start = monotonic()
        self._deadline = start + self.submission_seconds
        with SubmissionDir(submission.starters, self.jail) as submission_dir:
            phases = [self.grade_phase(number, submission, submission_dir) for number in self.phases]
            grade = SubmissionGrade(submission.name, phases, error=submission.error)
            up_to = written_in_a_row(phases)
            if up_to:
                self.on_progress("together", self.num_situations)
                outcomes = [self.play_together(number, up_to, submission_dir) for number in range(len(TOGETHER))]
                grade = replace(grade, together=outcomes, together_up_to=up_to)
        return replace(grade, seconds=monotonic() - start)

    def grade_phase(self, number: int, submission: Submission, submission_dir: SubmissionDir) -> PhaseGrade:
        """Grade one phase alone."""
        groups = [group for group in self.groups if group.phase == number]
        content = submission.starters.get(number)
        if content is None:
            nothing = [Outcome("not played")] * self.per_group
            unplayed = [GroupGrade(group, nothing) for group in groups]
            return PhaseGrade(number, unplayed, error=submission.error or "not handed in")
        session = PhaseSession(self, number, submission_dir, min(monotonic() + PHASE_SECONDS, self._deadline))
        try:
            graded = [self.grade_group(group, session) for group in groups]
        finally:
            session.close()
        return PhaseGrade(number, graded, hashlib.sha256(content).hexdigest(), session.error)

    def grade_group(self, group: TestGroup, session: "PhaseSession") -> GroupGrade:
        """Play the situations of a group, unless the file does not load or time is up."""
        outcomes = list[Outcome]()
        for number in range(self.per_group):
            done = self.groups.index(group) * self.per_group + number
            self.on_progress(f"phase {group.phase}: {group.title}", done)
            num_late = sum(outcome.status == "late" for outcome in outcomes)
            if session.error:
                outcomes.append(Outcome("not played", session.error))
            elif num_late >= MAX_TIMEOUTS or monotonic() > session.deadline:
                outcomes.append(Outcome("not played", TIME_IS_UP))
            else:
                outcomes.append(session.play(self.situation(group, number)))
        return GroupGrade(group, outcomes)

    def play_together(self, number: int, up_to: int, submission_dir: SubmissionDir) -> Outcome:
        """Play a situation with all phases up to one in the same engine; one that is late gets a second chance."""
        if monotonic() > self._deadline:
            return Outcome("not played", TIME_IS_UP)
        outcome = self._play_together_once(number, up_to, submission_dir, self.seconds)
        if outcome.status != "late":
            return outcome
        return self._play_together_once(number, up_to, submission_dir, MORE_TIME * self.seconds)

    def _play_together_once(self, number: int, up_to: int, submission_dir: SubmissionDir, seconds: float) -> Outcome:
        asked = self._draw((0, f"together up to {up_to}", number), together(TOGETHER[number], up_to))
        with JailedWorker(submission_dir, self.jail) as worker:
            for phase in range(1, up_to + 1):
                if error := load(worker, phase, with_torch=False):
                    return Outcome("stopped", error)
            return play(asked, worker, seconds)

    def situation(self, group: TestGroup, number: int) -> Question:
        """Return a situation of a group: the same for every submission."""
        return self._draw((group.phase, group.title, number), group.draws[number % len(group.draws)])

    def _draw(self, key: tuple[int, str, int], draw: Draw) -> Question:
        if key not in self._drawn:
            self._drawn[key] = draw(Random("/".join(map(str, (self.seed, *key)))))
        return self._drawn[key]


class PhaseSession:
    """One phase of one submission: its workers, a fresh one for each situation (torch is too slow for that)."""

    def __init__(self, judge: Judge, phase: int, submission_dir: SubmissionDir, deadline: float) -> None:
        self.judge = judge
        self.phase = phase
        self.submission_dir = submission_dir
        self.error = ""
        self.deadline = deadline
        self._worker: JailedWorker | None = None

    @property
    def needs_torch(self) -> bool:
        return self.phase in PHASES_WITH_TENSORS

    def play(self, situation: Question) -> Outcome:
        """Play one situation; note in `error` if the file cannot be loaded."""
        outcome = self._play_once(situation, self.judge.seconds)
        return self._play_once(situation, MORE_TIME * self.judge.seconds) if outcome.status == "late" else outcome

    def _play_once(self, situation: Question, seconds: float) -> Outcome:
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
            self._worker.close()
            self._worker = None

    def _loaded(self) -> JailedWorker | None:
        if self._worker is not None:
            return self._worker
        worker = JailedWorker(self.submission_dir, self.judge.jail)
        if error := load(worker, self.phase, with_torch=self.needs_torch):
            self.error = f"The file cannot be loaded. {error}"
            worker.close()
            return None
        self._worker = worker
        return worker


def load(worker: JailedWorker, phase: int, *, with_torch: bool) -> str:
    """Import the file of a phase in the worker; return why it cannot be loaded, "" if it can."""
    worker.set_deadline(LOAD_SECONDS)
    try:
        worker.load(phase, with_torch=with_torch)
    except ChannelError as error:
        return outcome_of_error(error, LOAD_SECONDS, worker, None).message
    except WorkerError as error:
        return str(error) or "It raises an exception."
    return ""


def written_in_a_row(phases: Sequence[PhaseGrade]) -> int:
    """Return the last of phases 1, 2, ... that are written one after the other; the model's phase 6 does not count."""
    written = {phase.number for phase in phases if phase.is_written}
    return next(
        (
            number - 1
            for number in range(1, LAST_WITHOUT_MODEL + 2)
            if number not in written or number > LAST_WITHOUT_MODEL
        ),
        0,
    )
