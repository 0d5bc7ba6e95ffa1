"""`python -m course.grading.job`: one check of a whole engine, in a process of its own. Started by `checks.py`."""

from pathlib import Path
from typing import Any

from course.grading.engine_checks import Failure, model_failure, oracle_failure, stack_failure
from course.grading.events import Checked, End, send_event
from course.grading.plan import PlannedPhase, load_whole_plan
from course.grading.starter_file import complaint_about_file, complaint_about_import, import_starter
from course.grading.worker import LIMITS
from course.sandbox.channel import take_stdio
from course.sandbox.explain import explain, is_not_written
from course.sandbox.frames import is_learners
from course.sandbox.limits import limit_resources
from course.sandbox.watch import Watch
from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup


def main() -> None:
    """Run the check of the order and send what was found."""
    channel = take_stdio()
    order = channel.receive()
    limit_resources(LIMITS)
    watch = Watch(Path(order["trace"]))
    watch.start(order["seconds"])
    try:
        failure = do(order)
    except BaseException as error:
        found = Checked("not yet" if is_not_written(error) else "failed", explain(error, {}), None)
    else:
        found = Checked("failed", failure.message, failure.steps) if failure else Checked("passed", "", None)
    send_event(channel, found)
    watch.stop()
    send_event(channel, End())


def do(order: dict[str, Any]) -> Failure | None:
    """Run the check that the order names."""
    mine = parse_lineup(order["mine"])
    for phase in load_whole_plan():
        if mine[phase.number] == "starter" and (complaint := complaint_about_starter(phase)):
            return Failure(complaint)
    reference = parse_lineup(order["reference"]) if order["reference"] else None
    match order["kind"]:
        case "stack":
            return stack_failure(mine, reference)
        case "oracle":
            assert reference is not None
            return oracle_failure(mine, reference)
        case "model":
            return model_failure(mine)
    raise ValueError(f"no check is called {order['kind']!r}")


def complaint_about_starter(phase: PlannedPhase) -> str:
    """Import the learner's file; return what is wrong with it, empty if nothing is."""
    path = CHECKOUT / phase.starter
    if complaint := complaint_about_file(path):
        return complaint
    try:
        file = import_starter(phase.module).__file__
    except BaseException as error:
        return complaint_about_import(error, path)
    return "" if file and is_learners(file) else f"Phase {phase.number} was loaded from {file}."


if __name__ == "__main__":
    main()
