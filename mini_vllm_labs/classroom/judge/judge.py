"""Grades every submission on the same situations, which are drawn from one secret seed."""

import hashlib
from collections.abc import Callable, Container
from random import Random
from time import monotonic

from mini_vllm_labs.classroom.judge.groups import TEST_GROUPS, TOGETHER, TestGroup
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.needed_files import WHOLE_ENGINE
from mini_vllm_labs.classroom.judge.play import outcome_of_error, play
from mini_vllm_labs.classroom.judge.question import JudgeQuestion
from mini_vllm_labs.classroom.judge.questions.cases import Cases
from mini_vllm_labs.classroom.judge.recorded_runs import Draw, together
from mini_vllm_labs.classroom.judge.results import (
    GroupResult,
    Outcome,
    SubmissionGrade,
    group_result,
    is_played,
    is_written,
    phase_result,
)
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.classroom.judge.worker import JailedWorker, StarterRaisedError, SubmissionDir, Workers
from mini_vllm_labs.runs.sandbox.channel import ChannelError

LOAD_SECONDS = 60.0
PHASE_SECONDS = 300.0
# multiplies the time limit when a situation that ran late is retried, because the machine may have been busy
MORE_TIME = 4
NEARLY_ALL = 0.8
MAX_TIMEOUTS = 2
LAST_WITHOUT_MODEL = 5
PHASES_WITH_TENSORS = (6, 7, 9, 10, 11, 12)
NAMED = -1  # in place of a situation's number
NO_TIME = Outcome("not played", "Not played: earlier situations used up the time.")


class Judge:
    """Grades submissions. `on_progress` receives the current activity, and the number of situations run so far."""

    def __init__(
        self, settings: JudgeSettings, jail: Jail, on_progress: Callable[[str, int], None] = lambda what, done: None
    ) -> None:
        self.settings = settings
        self.jail = jail
        self.groups = [group for group in TEST_GROUPS if group.phase in settings.phases]
        self.on_progress = on_progress
        self._deadline = float("inf")
        self._drawn: dict[tuple[int, str, int], JudgeQuestion] = {}

    def grade(self, submission: Submission) -> SubmissionGrade:
        """Grade one submission: each phase on its own, then all written phases together."""
        self.on_progress("drawing situations", 0)
        self.draw(submission.starters)  # done before the clock starts, so that drawing situations is not timed
        start = monotonic()
        self._deadline = start + 60 * self.settings.minutes
        grade = SubmissionGrade(submission.name, submission.error, submission.notes)
        with (
            SubmissionDir(submission.starters) as submission_dir,
            Workers(submission_dir, self.jail) as workers,
        ):
            for number in self.settings.phases:
                self.grade_phase(number, submission, workers, grade)
            written = [phase["phase"] for phase in grade.phases if is_written(phase) and is_played(phase)]
            if up_to := last_in_a_row(written):
                self.on_progress("together", len(self.groups) * self.settings.situations)
                grade.together_up_to = up_to
                for number in range(len(TOGETHER)):
                    is_late = any(outcome.status == "late" for outcome in grade.together)
                    grade.together.append(NO_TIME if is_late else self.play_together(number, up_to, workers))
        grade.seconds = monotonic() - start
        return grade

    def grade_phase(self, number: int, submission: Submission, workers: Workers, grade: SubmissionGrade) -> None:
        content = submission.starters.get(number)
        session = PhaseSession(self, number, workers, min(monotonic() + PHASE_SECONDS, self._deadline))
        if content is None:
            session.error = submission.error or "not handed in"
        groups = [self.grade_group(group, session, grade) for group in self.groups if group.phase == number]
        digest = None if content is None else hashlib.sha256(content).hexdigest()
        grade.phases.append(phase_result(number, groups, digest, session.error))

    def grade_group(self, group: TestGroup, session: "PhaseSession", grade: SubmissionGrade) -> GroupResult:
        """Ask a group's named cases and run its situations, unless the file cannot be loaded or time is up.

        The named cases belong to every situation, but they are asked only once: if one is wrong, all situations are.
        """
        outcomes, named = list[Outcome](), self.named_cases(group)
        if named is not None and not session.error and monotonic() <= session.deadline:
            self.on_progress(f"phase {group.phase}: {group.title}", self.groups.index(group) * self.settings.situations)
            outcome = session.play(named)
            outcomes += [outcome] * (self.settings.situations if outcome.status != "right" else 0)
        for number in range(len(outcomes), self.settings.situations):
            done = self.groups.index(group) * self.settings.situations + number
            self.on_progress(f"phase {group.phase}: {group.title}", done)
            num_late = sum(outcome.status == "late" for outcome in outcomes)
            if session.error:
                outcomes.append(Outcome("not played", session.error))
            elif num_late >= MAX_TIMEOUTS or monotonic() > session.deadline:
                outcomes.append(NO_TIME)
            else:
                outcomes.append(session.play(self.situation(group, number)))
        failure = next((outcome for outcome in outcomes if outcome.status != "right"), None)
        if failure is not None:
            grade.failures[group.phase, group.title] = failure
        return group_result(group, outcomes)

    def play_together(self, number: int, up_to: int, workers: Workers) -> Outcome:
        """Run a situation with phases 1 to `up_to` in one engine, and retry once if it times out."""
        if monotonic() > self._deadline:
            return NO_TIME
        asked = self._draw((0, f"together up to {up_to}", number), together(TOGETHER[number], up_to))

        def play_in(seconds: float) -> Outcome:
            worker = workers.fresh(WHOLE_ENGINE, until=self._deadline)
            for phase in range(1, up_to + 1):
                if failed := load(worker, phase):
                    return failed
            return play(asked, worker, seconds)

        return with_second_chance(play_in, workers, self.settings.seconds, self._deadline)

    def draw(self, phases: Container[int]) -> None:
        """Draw the situations for some phases, unless that has already been done."""
        for group in (group for group in self.groups if group.phase in phases):
            self.questions(group)

    def questions(self, group: TestGroup) -> list[JudgeQuestion]:
        """Return a group's named cases, if it has any, and then its situations."""
        situations = [self.situation(group, number) for number in range(self.settings.situations)]
        return [*filter(None, [self.named_cases(group)]), *situations]

    def named_cases(self, group: TestGroup) -> JudgeQuestion | None:
        """Return the named cases of a group, or None for a group of tensors."""
        if not isinstance(group.draw, Cases):
            return None
        return self._draw((group.phase, group.title, NAMED), group.draw.named)

    def situation(self, group: TestGroup, number: int) -> JudgeQuestion:
        """Return one of a group's situations, which are the same for every submission."""
        return self._draw((group.phase, group.title, number), group.draw)

    def _draw(self, key: tuple[int, str, int], draw: Draw) -> JudgeQuestion:
        if key not in self._drawn:
            self._drawn[key] = draw(Random("/".join(map(str, (self.settings.seed, *key)))))
        return self._drawn[key]


class PhaseSession:
    """One phase of one submission. `error` explains why the file cannot be loaded."""

    def __init__(self, judge: Judge, phase: int, workers: Workers, deadline: float) -> None:
        self.judge = judge
        self.phase = phase
        self.workers = workers
        self.error = ""
        self.deadline = deadline

    def play(self, situation: JudgeQuestion) -> Outcome:
        """Run one situation; set `error` if the file cannot be loaded."""
        usual = self.judge.settings.seconds
        return with_second_chance(lambda seconds: self._play_in(situation, seconds), self.workers, usual, self.deadline)

    def _play_in(self, situation: JudgeQuestion, seconds: float) -> Outcome:
        worker = self.workers.fresh(self.phase, with_torch=self.phase in PHASES_WITH_TENSORS, until=self.deadline)
        if failed := load(worker, self.phase):
            if failed.status == "late" and seconds <= self.judge.settings.seconds:
                return failed  # the caller will try again
            self.error = f"The file cannot be loaded. {failed.message}"
            return Outcome("not played", self.error)
        return play(situation, worker, seconds)


def with_second_chance(
    play_in: Callable[[float], Outcome], workers: Workers, seconds: float, deadline: float
) -> Outcome:
    """Return the outcome of `play_in` under a time limit; if the limit is exceeded, call it again with more time.

    A worker that was running for nearly the whole time gets no second try, because more time helps only if the machine
    was busy. If the overall deadline cuts off the first try, the outcome is `NO_TIME`.
    """
    outcome = play_in(seconds)
    is_late = outcome.status == "late" and workers.last_cpu_seconds < NEARLY_ALL * seconds
    if is_late and monotonic() < deadline:
        outcome = play_in(MORE_TIME * seconds)
    return NO_TIME if outcome.status == "late" and monotonic() >= deadline else outcome


def load(worker: JailedWorker, phase: int) -> Outcome | None:
    """Import a phase's file in the worker; return the failure, or None on success."""
    worker.set_deadline(LOAD_SECONDS)
    try:
        worker.load(phase)
    except ChannelError as error:
        return outcome_of_error(error, LOAD_SECONDS, worker, None)
    except StarterRaisedError as error:
        return Outcome("stopped", str(error) or "It raises an exception.")
    return None


def last_in_a_row(written: list[int]) -> int:
    """Return the last phase before the first unwritten one, but at most 5, because phase 6 needs a model."""
    row = range(1, LAST_WITHOUT_MODEL + 1)
    return next((number - 1 for number in row if number not in written), LAST_WITHOUT_MODEL)
