"""An engine for the suite's tests that gives the recorded answers, with one fault on request.

Run it as `python -m tests.conformance.recorded_engine FAULT FILE...`. The fault appears in step 3 of the scenario
`FAULTY`. FAULT is one of the names in `fail`, the fields that differ, or the whole line to send. `hello {...}` changes
the greeting instead, and `by times ` before the fault makes the engine answer with times.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mini_vllm_labs.conformance.by_times import RecordedTimes
from mini_vllm_labs.conformance.compare import GROUPS
from mini_vllm_labs.conformance.scenarios import CAPABILITIES, RecordedScenario, read

DECIDED = ("scheduled", "preempted", "evicted", "finished_sent", "free_after_schedule")
FAULTY, STEP = "budget_cap", 3
DEFECTS = "stale_blocks index_slip stale_drafts flipped_skips own_reservation ghost_prefill unreserved_prompts".split()
GREETING: dict[str, Any] = {"protocol": 1, "engine": "recorded", "has": CAPABILITIES, "offers": GROUPS}
SPECIAL = {"deep": "[" * 100_000 + "\n", "flood": "x" * 10_000_000}


def expected(scenario: RecordedScenario, message: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded answer. The inputs must match the recording at this point."""
    if message["op"] == "play":
        told = RecordedTimes(scenario)
        return {"admitted": told.admitted, "hits": told.hits, "tokens": told.tokens}
    if message["op"] == "update":
        recorded = scenario.steps[message["step"]]
        assert message["of"] == recorded["update_of"]
        return {name: value for name, value in recorded.items() if name not in DECIDED}
    return scenario.steps[message["step"]] if message["op"] == "step" else {"ok": True}


def fail(fault: str, answer: dict[str, Any]) -> str:
    if fault.startswith("dies"):
        os._exit(3)
    if fault == "silent":
        time.sleep(60)
    if fault == "two lines":
        return 2 * (json.dumps(answer) + "\n")
    changed = json.loads(fault) if fault.startswith('{"') and fault.endswith("}") else None
    return json.dumps(answer | changed) + "\n" if changed else SPECIAL.get(fault, fault)


def answers(fault: str, scenarios: dict[tuple[str, str], RecordedScenario]) -> Iterator[str]:
    scenario, by_times = next(iter(scenarios.values())), fault.startswith("by times ")
    fault = fault.removeprefix("by times ")
    for line in sys.stdin:
        message = json.loads(line)
        if message["op"] == "hello":
            greeting = GREETING | {"defects": DEFECTS, "answers": "times" if by_times else "steps"}
            yield (
                json.dumps(greeting | json.loads(fault.removeprefix("hello ")) if "hello" in fault else greeting) + "\n"
            )
            continue
        if message["op"] in ("init", "play"):
            scenario = scenarios[message["release"], message["name"]]
        answer = expected(scenario, message)
        is_here = scenario.name == FAULTY and message["op"] in ("step", "play")
        is_here = is_here and message.get("step", STEP) == STEP
        yield fail(fault, answer) if is_here or fault == "dies always" else json.dumps(answer) + "\n"


if __name__ == "__main__":
    found = {(one.release, one.name): one for path in sys.argv[2:] for one in read(Path(path))}
    for text in answers(sys.argv[1], found):
        sys.stdout.write(text)
        sys.stdout.flush()
