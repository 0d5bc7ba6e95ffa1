"""Run one situation on a learner's file in a worker and compare it with the reference."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import islice
from typing import Any

from classroom.judge.engine import ScenarioRun
from classroom.judge.groups import EngineRun
from classroom.judge.questions.trial import Trial
from classroom.judge.results import Difference, Outcome
from classroom.judge.scenario import Scenario
from classroom.judge.worker import JailedWorker
from classroom.worker.encoding import Exported
from classroom.worker.link import PartError
from classroom.worker.text import one_line
from course.oracle.divergence import COMPARED
from course.parity.replay import as_json
from course.sandbox.channel import ChannelError

GRACE_SECONDS = 0.5  # the channel's own deadline is earlier
MAX_STEPS = 400
MAX_ITEMS = 200
NOT_WRITTEN = "Not written yet"


def play(situation: Any, worker: JailedWorker, seconds: float) -> Outcome:
    """Play a situation with a worker that has loaded the file. Never raises for an error of the learner's code."""
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
    except Exception as error:  # an impossible answer broke the reference's parts
        message = f"The engine failed with your code's answer. {type(error).__name__}: {error}"
        return Outcome("stopped", message[:2000], scenario)


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise `ChannelError` in the block after a time: an answer may keep the judge's own parts busy.

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
    mine_run, mine = ScenarioRun(run.scenario, worker.link, run.mine), list[Any]()
    for number, expected in enumerate(run.trace):
        if mine_run.finished:
            message = f"Your engine finishes after {number} steps; the reference's continues."
            return Outcome("wrong", message, run.scenario)
        mine.append(mine_run.step())
        for field in COMPARED:
            if as_json(mine[-1][field]) != as_json(expected[field]):  # type: ignore[literal-required]
                difference = Difference(number, field, run.trace[: number + 1], [bounded(step) for step in mine])
                message = f"The first difference from the reference is in step {number}, {field!r}."
                return Outcome("wrong", message, run.scenario, difference)
    if not mine_run.finished:
        return Outcome("wrong", f"The reference finishes after {len(run.trace)} steps; yours continues.", run.scenario)
    return Outcome("right")


def bounded(value: Any) -> Any:
    """Return a value of a trace with lists and texts cut to what a reader looks at: they may come from an answer."""
    match value:
        case dict():
            return {bounded(key): bounded(item) for key, item in islice(value.items(), MAX_ITEMS)}
        case list() | tuple():
            return type(value)(bounded(item) for item in value[:MAX_ITEMS])
        case str():
            return one_line(value, MAX_ITEMS)
    return value


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
    run = ScenarioRun(generation.scenario, runner=runner)
    outputs: dict[str, list[int]] = {request_id: [] for request_id in generation.truth}
    for _ in range(MAX_STEPS):
        if run.finished:
            break
        for request_id, tokens in run.step()["output"]:
            outputs[request_id] += tokens
            expected = generation.truth[request_id][: len(outputs[request_id])]
            if outputs[request_id] != expected:
                message = f"{request_id} should generate the tokens {expected}, and generates {outputs[request_id]}."
                return Outcome("wrong", message, generation.scenario)
    return Outcome("right") if run.finished else Outcome("wrong", "The engine does not finish.")


def outcome_of_error(error: ChannelError, seconds: float, worker: JailedWorker, scenario: Scenario | None) -> Outcome:
    """End the worker and return the outcome of a failed channel."""
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
        lines.append(f"  in        {short([part for part in trial.arguments if not isinstance(part, Exported)])}")
    return "\n".join([*lines, f"  expected  {short(trial.expected[number])}", f"  yours     {short(found[number])}"])


def short(value: Any) -> str:
    """Return a value as text, cut if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 600 else f"{text[:600]} ..."
