"""An example engine for the conformance suite: the course's scheduler answers the protocol's lines.

    mini-vllm conformance -- python docs/conformance/engine.py [LINEUP]

`docs/conformance/protocol.md` is the protocol. A lineup such as starter:1,solution:2-5 asks your own phases.
"""

import json
import sys
from collections import deque
from typing import Any

from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import default_lineup_text, parse_lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.observers import StepResult
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.sampling_params import SamplingParams

LINEUP = parse_lineup(sys.argv[1] if len(sys.argv) > 1 else f"{default_lineup_text()}:1-8")
DECISIONS = ("scheduled", "preempted", "evicted", "finished_sent", "free_after_schedule")
RESULTS = ("output", "finished", "running_after", "waiting_after", "free_after_update", "detail")
HELLO = {
    "protocol": 1,
    "engine": "mini-vllm",
    "follows": "0.13.0",
    "has": ["plain", *(["spec"] if LINEUP[7] != "absent" else []), *(["async"] if LINEUP[8] != "absent" else [])],
    "offers": ["order", "computed", "causes", "output", "ends", "queues", "sent", "blocks", "pool"],
}


class Engine:
    """One scenario. Each method answers the message of its name."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.eos = frozenset([config.pop("eos_token_id")])
        spec = config.pop("spec")
        self.config = EngineConfig(
            num_gpu_blocks=config.pop("usable_blocks") + 1,  # block 0 is never given out
            speculative_config=spec and speculation(spec),
            **config,
        )
        evicted: list[int] = []
        self.scheduler = build_scheduler(self.config, LINEUP, evicted.append, images_have_places=False)
        self.recorder = TraceRecorder(self.scheduler, evicted)
        self.requests: dict[str, Request] = {}
        self.in_flight: deque[SchedulerOutput] = deque()

    def add(self, message: dict[str, Any]) -> dict[str, Any]:
        names = ("max_tokens", "ignore_eos", "stop_token_ids")
        request = self.requests[message["id"]] = Request(
            request_id=message["id"],
            prompt_token_ids=message["prompt"],
            sampling_params=SamplingParams(**{name: message[name] for name in names}),
            eos_token_ids=self.eos,
            priority=message["priority"],
            arrival_time=message["arrival_time"],
        )
        self.scheduler.add_request(request)
        return {"ok": True}

    def abort(self, message: dict[str, Any]) -> dict[str, Any]:
        self.scheduler.finish_request(message["id"], RequestStatus.FINISHED_ABORTED)
        return {"ok": True}

    def step(self, message: dict[str, Any]) -> dict[str, Any]:
        self.recorder.before_schedule()
        plan = self.scheduler.schedule()
        self.recorder.after_schedule(plan)
        self.scheduler.start_step(plan)
        self.in_flight.append(plan)
        return self.answer(message, DECISIONS)

    def update(self, message: dict[str, Any]) -> dict[str, Any]:
        plan, sampled, kept = self.in_flight[-1], message["sampled"], {}
        if message["of"] is not None:  # asynchronous: the step before this one
            kept = self.scheduler.update_from_output(self.in_flight.popleft(), sampled)
        ended = [self.requests[request_id] for request_id in kept if self.requests[request_id].is_finished]
        if not self.config.async_scheduling:
            living = [request_id for request_id in plan.num_scheduled_tokens if request_id in self.scheduler.requests]
            drafts = {request_id: message["drafts"].get(request_id, []) for request_id in living}
            self.scheduler.update_draft_token_ids(drafts)
        if message["of"] is None:
            self.recorder.step_started()
        else:
            self.recorder.after_update(StepResult(plan, sampled, kept, ended, {}))
        return self.answer(message, RESULTS)

    def answer(self, message: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        record: Any = self.recorder.steps[-1]
        return {"step": message["step"]} | {name: record[name] for name in names}


def speculation(spec: dict[str, Any]) -> SpeculativeConfig:
    """0.13.0's scheduler only asks whether the drafter has a KV cache, as EAGLE's does."""
    return SpeculativeConfig("draft_model" if spec["method"] == "eagle" else "ngram", spec["num_speculative_tokens"])


def main() -> None:
    engine: Any = None
    for line in sys.stdin:
        message = json.loads(line)
        op, answer = message["op"], {"ok": True}
        if op == "hello":
            answer = HELLO
        elif op == "init":
            engine = Engine(message["config"])
        elif op in ("add", "abort", "step", "update"):
            answer = getattr(engine, op)(message)
        elif op != "end":
            answer = {"unsupported": op}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
