"""Sends one question to a learner's file in a worker, and compares the answers with the reference's."""

from itertools import islice
from typing import Any

from mini_vllm_labs.classroom.judge.question import JudgeQuestion, difference, same
from mini_vllm_labs.classroom.judge.results import Outcome, Status
from mini_vllm_labs.classroom.judge.worker import JailedWorker, StarterRaisedError
from mini_vllm_labs.classroom.worker.answers import Json
from mini_vllm_labs.classroom.worker.script import ends_script
from mini_vllm_labs.classroom.worker.text import one_line
from mini_vllm_labs.runs.oracle.divergence import COMPARED, Divergence
from mini_vllm_labs.runs.sandbox.channel import ChannelError
from mini_vllm_labs.runs.sandbox.explain import no_answer_within

MAX_ITEMS = 200
NOT_WRITTEN = "Not written yet"


def play(asked: JudgeQuestion, worker: JailedWorker, seconds: float) -> Outcome:
    """Send a question to a worker that has loaded the file. An error in the learner's code becomes an outcome."""
    worker.set_deadline(seconds)
    try:
        found = answers_of(asked, worker)
    except StarterRaisedError as error:
        return Outcome(status_of(str(error)), str(error), asked.scenario)
    except ChannelError as error:
        return outcome_of_error(error, seconds, worker, asked)
    if not isinstance(found, list):
        return Outcome("wrong", f"{asked.driver}: expected {len(asked.expected)} answers.", asked.scenario)
    return compare_traces(asked, found) if asked.driver == "play_together" else compare_answers(asked, found)


def answers_of(asked: JudgeQuestion, worker: JailedWorker) -> Json:
    """Return the worker's answers.

    The worker receives each call of a script only after answering the previous one.
    """
    if not asked.calls:
        return worker.ask({"driver": asked.driver, "arguments": asked.arguments}, asked.right[0])
    worker.process.send({"driver": asked.driver, "arguments": asked.arguments, "num_calls": len(asked.calls)})
    found = list[Json]()
    for call, right in zip(asked.calls, asked.right, strict=False):
        found.append(worker.ask({"arguments": call}, right))
        if ends_script(found[-1]):
            break
    end = worker.receive(asked.right[-1])
    return [*found, *end[-1:]] if isinstance(end, list) else end


def compare_answers(asked: JudgeQuestion, found: list[Json]) -> Outcome:
    if same(asked.expected, found):
        return Outcome("right")
    pairs = zip(asked.expected, found, strict=False)
    first = next((theirs for ours, theirs in pairs if not same(ours, theirs)), None)
    if text := text_of_error(first):
        return Outcome(status_of(text), text, asked.scenario)
    return Outcome("wrong", difference(asked, found), asked.scenario)


def compare_traces(asked: JudgeQuestion, found: list[Json]) -> Outcome:
    """Compare two engines step by step."""
    scenario, (*reference, _), (*mine, end) = asked.scenario, asked.expected, found or [None]
    for number, (ours, theirs) in enumerate(zip(reference, mine, strict=False)):
        for field in COMPARED:
            if not isinstance(theirs, dict) or not same(ours[field], theirs.get(field)):
                shown = Divergence(number, field, bounded(mine[: number + 1]), reference[: number + 1])
                message = f"The first difference from the reference is in step {number}, {field!r}."
                return Outcome("wrong", message, scenario, shown)
    if text := text_of_error(end):
        return Outcome(status_of(text), text, scenario)
    if len(mine) < len(reference):
        message = f"Your engine finishes after {len(mine)} steps; the reference's continues."
        return Outcome("wrong", message, scenario)
    if len(mine) > len(reference) or end is not True:
        return Outcome("wrong", f"The reference finishes after {len(reference)} steps; yours continues.", scenario)
    return Outcome("right")


def text_of_error(answer: Json) -> str:
    """Return the explanation if an answer is an exception; otherwise, return an empty string."""
    return str(answer.get("text", "")) if isinstance(answer, dict) and "raises" in answer else ""


def status_of(text: str) -> Status:
    return "not written" if text.startswith(NOT_WRITTEN) else "stopped"


def bounded(value: Any) -> Any:
    """Shorten lists and texts in a worker's trace to a readable length."""
    match value:
        case dict():
            return {bounded(key): bounded(item) for key, item in islice(value.items(), MAX_ITEMS)}
        case list() | tuple():
            return type(value)(bounded(item) for item in value[:MAX_ITEMS])
        case str():
            return one_line(value, MAX_ITEMS)
    return value


def outcome_of_error(error: ChannelError, seconds: float, worker: JailedWorker, asked: JudgeQuestion | None) -> Outcome:
    """End the worker and return the outcome for a broken channel."""
    worker.close()
    scenario = asked.scenario if asked else None
    if error.reason == "timeout":
        return Outcome("late", no_answer_within(f"{seconds:g} seconds"), scenario)
    if error.reason == "malformed":
        return Outcome("stopped", f"Your process sent a message that the judge cannot read: {error}.", scenario)
    return Outcome("stopped", "Your code ended the whole process (os._exit, a crash, or too much memory).", scenario)
