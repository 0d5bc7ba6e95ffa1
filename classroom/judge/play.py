"""One situation, put to a learner's file in a worker and compared with what the reference does."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from classroom.judge.engine import ScenarioRun
from classroom.judge.groups import EngineRun
from classroom.judge.questions.trial import Trial
from classroom.judge.results import Difference, Outcome
from classroom.judge.scenario import Scenario
from classroom.judge.worker import JailedWorker
from classroom.worker.link import PartError
from course.oracle.divergence import COMPARED
from course.parity.replay import as_json
from course.sandbox.channel import ChannelError

GRACE_SECONDS = 0.5  # the channel's own deadline comes first
MOST_STEPS = 400
NOT_WRITTEN = "Not written yet"


def play(situation: Any, worker: JailedWorker, seconds: float) -> Outcome:
    """Play a situation with a worker that has loaded the file. Never raises for what the learner's code does."""
    worker.set_deadline(seconds)
    scenario: Scenario | None = getattr(situation, "scenario", None)
    action: Callable[[], Outcome]
    if isinstance(situation, EngineRun):
        action = lambda: play_engine(situation, worker)  # noqa: E731
    elif isinstance(situation, Trial):
        action = lambda: play_trial(situation, worker)  # noqa: E731
    else:
        action = lambda: play_generation(situation, worker)  # noqa: E731
    try:
        with interrupted_after(seconds + GRACE_SECONDS):
            return action()
    except PartError as error:
        status = "not written" if str(error).startswith(NOT_WRITTEN) else "stopped"
        return Outcome(status, str(error), scenario)  # type: ignore[arg-type]
    except ChannelError as error:
        return outcome_of_error(error, seconds, worker, scenario)
    except Exception as error:  # the reference's parts met an answer that nobody gives
        message = f"The engine stopped with what your code gave back. {type(error).__name__}: {error}"
        return Outcome("stopped", message[:2000], scenario)


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise `ChannelError` in the block after a time: an answer may send the judge's own parts on a long way.

    Does nothing outside of the main thread and on systems without alarms.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise ChannelError("timeout", "the engine was still busy with an answer")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def play_engine(run: EngineRun, worker: JailedWorker) -> Outcome:
    """Compare step by step and stop at the first difference."""
    play, mine = ScenarioRun(run.scenario, worker.link, run.mine), list[Any]()
    for number, expected in enumerate(run.trace):
        if play.finished:
            message = f"Your engine is done after {number} steps; the reference's goes on."
            return Outcome("wrong", message, run.scenario)
        mine.append(play.step())
        for field in COMPARED:
            if as_json(mine[-1][field]) != as_json(expected[field]):  # type: ignore[literal-required]
                difference = Difference(number, field, run.trace[: number + 1], mine)
                message = f"The first difference from the reference is in step {number}, {field!r}."
                return Outcome("wrong", message, run.scenario, difference)
    if not play.finished:
        return Outcome("wrong", f"The reference is done after {len(run.trace)} steps; yours goes on.", run.scenario)
    return Outcome("right")


def play_trial(trial: Trial, worker: JailedWorker) -> Outcome:
    """Put the questions and compare the answers."""
    found = worker.file.call("drive", trial.phase, trial.driver, *deepcopy(trial.arguments))
    if trial.equal(trial.expected, found):
        return Outcome("right")
    return Outcome("wrong", difference_of_answers(trial, found))


def play_generation(generation: Any, worker: JailedWorker) -> Outcome:
    """Run the judge's model through the learner's functions and compare the tokens."""
    from classroom.judge.generation import paged_runner

    runner = paged_runner(generation, worker.link)
    play = ScenarioRun(generation.scenario, runner=runner)
    said: dict[str, list[int]] = {request_id: [] for request_id in generation.truth}
    for _ in range(MOST_STEPS):
        if play.finished:
            break
        for request_id, tokens in play.step()["output"]:
            said[request_id] += tokens
            expected = generation.truth[request_id][: len(said[request_id])]
            if said[request_id] != expected:
                message = f"{request_id} should say the tokens {expected}, and says {said[request_id]}."
                return Outcome("wrong", message, generation.scenario)
    return Outcome("right") if play.finished else Outcome("wrong", "The engine never comes to an end.")


def outcome_of_error(error: ChannelError, seconds: float, worker: JailedWorker, scenario: Scenario | None) -> Outcome:
    """Return what a worker's end means."""
    worker.close()
    if error.reason == "timeout":
        return Outcome("late", f"No answer within {seconds:g} seconds. Your code was still busy.", scenario)
    if error.reason == "malformed":
        message = f"Your process sent what the judge cannot read: {error}."
        return Outcome("stopped", message, scenario)
    return Outcome("stopped", "Your code ended the whole process (os._exit, a crash, or too much memory).", scenario)


def difference_of_answers(trial: Trial, found: Any) -> str:
    """Return the first answer that differs, with its question if there is one for each answer."""
    if not isinstance(found, list) or len(found) != len(trial.expected):
        return f"{trial.driver}: {len(trial.expected)} answers were expected; yours: {short(found)}"
    pairs = enumerate(zip(trial.expected, found, strict=True))
    number = next((at for at, (ours, theirs) in pairs if not trial.equal([ours], [theirs])), 0)
    questions = trial.arguments[-1]
    lines = [f"{trial.driver}: the first answer that differs is number {number + 1} of {len(found)}."]
    if isinstance(questions, list) and len(questions) == len(found):
        lines.append(f"  question  {short(questions[number])}")
    elif trial.driver not in ("paged_attention", "write_kv"):
        lines.append(f"  in        {short(trial.arguments)}")
    return "\n".join([*lines, f"  expected  {short(trial.expected[number])}", f"  yours     {short(found[number])}"])


def short(value: Any) -> str:
    """Return a value as text, cut if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 600 else f"{text[:600]} ..."
