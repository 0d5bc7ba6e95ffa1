"""An example engine for the conformance suite: it serves the course's scheduler through the protocol.

    mini-vllm conformance -- python docs/conformance/engine.py [LINEUP]

`docs/conformance/protocol.md` describes the protocol. To use your own phases, pass a lineup: starter:1,solution:2-5.
"""

import json
import sys
from collections import deque
from typing import Any, cast

from mini_vllm.assembly.lineup import default_lineup_text, parse_lineup
from mini_vllm.core.request import RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.releases.reset import reset_prefix_cache, set_pause_state
from mini_vllm.electives.releases.step_state import PauseState
from mini_vllm.engine.observers import StepResult
from mini_vllm_labs.runs.parity.replay import ScenarioReplay, as_json
from mini_vllm_labs.runs.parity.scenario import Scenario

FIRST, OK = "0.13.0", {"ok": True}
LINEUP = parse_lineup(sys.argv[1] if len(sys.argv) > 1 else "{0}:1-12,{0}:14".format(default_lineup_text()))
DECISIONS = ("scheduled", "preempted", "evicted", "finished_sent", "free_after_schedule")
RESULTS = ("output", "finished", "running_after", "waiting_after", "free_after_update", "detail")
OF_PHASE = {7: "spec", 8: "async", 9: "grammar", 10: "remote", 11: "lora encoder", 12: "window hybrid"}
OF_PHASE |= {14: "options pause reset"}
HAS = " ".join(["plain", *(names for phase, names in OF_PHASE.items() if LINEUP[phase] != "absent")]).split()
OFFERS = "order computed causes output ends queues sent blocks pool gates newer".split()
HELLO = {"protocol": 1, "engine": "mini-vllm", "follows": FIRST, "has": HAS, "offers": OFFERS}


class Engine:
    """One scenario. Each method handles the message of the same name."""

    def __init__(self, message: dict[str, Any]) -> None:
        config, self.release = message["config"], message["release"]
        config["num_gpu_blocks"] = config.pop("usable_blocks") + 1  # block 0 is never allocated
        config |= {} if self.release == FIRST else {"version": self.release}
        self.scenario = Scenario({"name": message["name"], "config": config, "requests": {}})
        built = ScenarioReplay(self.scenario, LINEUP)  # the scheduler, and a list that records its steps
        self.config, self.scheduler, self.recorder = built.config, built.scheduler, built.recorder
        self.requests, self.connector, self.gates = built.requests, built.connector, built.gates_recorder
        self.in_flight = deque[tuple[SchedulerOutput, Any]]()
        self.some: dict[str, Any] = {}

    def add(self, message: dict[str, Any]) -> dict[str, Any]:
        name = message["id"]
        self.scenario.line["requests"][name] = message | {"prompt": [{"tokens": message["prompt"]}]}
        self.requests[name] = self.scenario.request(name)
        self.scheduler.add_request(self.requests[name])
        return OK

    def event(self, op: str, message: dict[str, Any]) -> dict[str, Any]:
        if op == "abort":
            self.scheduler.finish_request(message["id"], RequestStatus.FINISHED_ABORTED)
        elif op == "compiled":
            cast(Any, self.requests[message["id"]].grammar).set_result(None)  # ignored: no model reads it
        elif op == "pause":
            set_pause_state(self.scheduler, PauseState(message["what"]))
        elif op == "reset":
            self.some["reset_done"] = reset_prefix_cache(self.scheduler, reset_running_requests=message["running"])
        else:
            return {"unsupported": op}
        return OK

    def step(self, message: dict[str, Any]) -> dict[str, Any]:
        self.recorder.before_schedule()
        plan = self.scheduler.schedule()
        self.recorder.after_schedule(plan)
        self.some |= self.gates.after_schedule(self.recorder.steps[-1]["scheduled"])
        self.scheduler.start_step(plan)
        transfers = self.connector.take_output() if self.connector and self.release == FIRST else None
        self.in_flight.append((plan, transfers))
        decided = self.answer(message, DECISIONS)
        decided["preempted"] = [[victim, cause or None, n] for victim, cause, n in decided["preempted"]]
        return decided

    def update(self, message: dict[str, Any]) -> dict[str, Any]:
        (plan, moved), sampled, kept = self.in_flight[-1], message["sampled"], {}
        if self.connector and self.release != FIRST:  # later releases report this after an abort
            moved = self.connector.take_output()
            self.in_flight[-1] = (plan, moved)
        if message["of"] is not None:  # with async scheduling, this is the previous step
            applied, transfers = self.in_flight.popleft()
            kept = self.scheduler.update_from_output(applied, sampled, transfers)
        ended = [self.requests[request_id] for request_id in kept if self.requests[request_id].is_finished]
        if not self.config.async_scheduling:
            living = [request_id for request_id in plan.num_scheduled_tokens if request_id in self.scheduler.requests]
            drafts = {request_id: message["drafts"].get(request_id, []) for request_id in living}
            self.scheduler.update_draft_token_ids(drafts)
        self.recorder.after_update(StepResult(plan, sampled, kept, ended, {}))
        self.some |= self.gates.after_update(moved)
        return self.answer(message, RESULTS)

    def answer(self, message: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        record: Any = self.recorder.steps[-1]
        some, self.some = self.some, {}
        return {"step": message["step"]} | {name: as_json(record[name]) for name in names} | as_json(some)


def main() -> None:
    engine: Any = None
    for line in sys.stdin:
        message = json.loads(line)
        op, answer = message["op"], HELLO if message["op"] == "hello" else OK
        if op in ("add", "step", "update"):
            answer = getattr(engine, op)(message)
        elif op == "init":
            try:
                engine = Engine(message)
            except ValueError as error:
                answer = {"unsupported": str(error)}
        elif op not in ("hello", "end"):
            answer = engine.event(op, message)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
