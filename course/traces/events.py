"""The events for which it is worth stopping at a step."""

from itertools import chain, zip_longest

from course.traces.recording import Recording
from mini_vllm.core.step_record import StepRecord


def events_in(*recordings: Recording) -> list[list[str]]:
    """Return, for each step, the events that happen in it in any of the runs."""
    runs = [map(events_of, recording.steps) for recording in recordings]
    return [list(dict.fromkeys(chain(*step))) for step in zip_longest(*runs, fillvalue=())]


def events_of(record: StepRecord) -> list[str]:
    """Return which of preemption, prefix hit, stall and finish happened in a step."""
    happened = {
        "preemption": record["preempted"],
        "prefix hit": [share for share in record["scheduled"] if share.get("hit")],
        "stall": not record["scheduled"] and (record["running_after"] or record["waiting_after"]),
        "finish": record["finished"],
    }
    return [event for event, is_there in happened.items() if is_there]
