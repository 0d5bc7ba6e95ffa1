"""An adapter for vidur's schedulers `sarathi` and `vllm`, which run unmodified and without their execution-time
predictor.

    pip download vidur==0.0.26 --no-deps && unzip vidur-*.whl -d vidur-source
    mini-vllm conformance -- python docs/conformance/vidur_adapter.py vidur-source sarathi

Vidur only counts tokens and keeps no token ids, so there is no prefix cache. Vidur lacks aborts, stop tokens and a
length limit, so this file adds them.
"""

import json
import logging
import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT, KIND = sys.argv[1], sys.argv[2]
HAS = "preemption eos stop_tokens abort abort_before_update".split() + ["whole_prompts"] * (KIND == "vllm")
COUNTERS = "_replica_id _watermark_blocks _num_allocated_blocks _num_running_batches _num_running_stages".split()
PACKAGES = ("vidur", "vidur.entities", "vidur.scheduler", "vidur.scheduler.replica_scheduler")
SCHEDULERS = {"sarathi": "SarathiReplicaScheduler", "vllm": "VLLMReplicaScheduler"}
UNUSED = {  # modules that the scheduler imports but does not need for its decisions
    "vidur.config": "BaseReplicaSchedulerConfig BaseRequestGeneratorConfig CacheConfig ReplicaConfig",
    "vidur.execution_time_predictor": "BaseExecutionTimePredictor",
    "vidur.scheduler.replica_stage_scheduler": "ReplicaStageScheduler",
    "vidur.utils": "",
    "vidur.utils.memory_planner": "MemoryPlanner",
    "vidur.entities.batch_stage": "BatchStage",
    "vidur.entities.execution_time": "ExecutionTime",
    "vidur.logger": "",
    "vidur.types": "",
}
for name in (*PACKAGES, *UNUSED):  # the packages' `__init__` files import pandas, plotly and a GPU profile
    sys.modules[name] = module = ModuleType(name)
    module.__path__ = [f"{ROOT}/{name.replace('.', '/')}"] if name in PACKAGES else []
    vars(module).update(dict.fromkeys(UNUSED.get(name, "").split(), list))
sys.modules["vidur.logger"].init_logger, sys.modules["vidur.types"].ReplicaId = logging.getLogger, int
entities = sys.modules["vidur.entities"]
vars(entities).update(dict.fromkeys(("BatchStage", "KVParallelBatch", "KVParallelBatchStage", "Replica"), list))
entities.Request = Request = import_module("vidur.entities.request").Request
entities.Batch = import_module("vidur.entities.batch").Batch
Scheduler = getattr(import_module(f"{PACKAGES[-1]}.{KIND}_replica_scheduler"), SCHEDULERS[KIND])


class Engine:
    """One scenario. Each method handles the message of the same name."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config, slots, budget = config, config["max_num_seqs"], config["max_num_batched_tokens"]
        scheduler = self.scheduler = Scheduler.__new__(Scheduler)  # the real `__init__` looks up a GPU's memory size
        scheduler._config = SimpleNamespace(batch_size_cap=slots, max_tokens_in_batch=budget, chunk_size=budget)
        blocks = {"num_blocks": config["usable_blocks"], "block_size": config["block_size"]}
        scheduler._cache_config = SimpleNamespace(**blocks, watermark_blocks_fraction=0)
        scheduler._replica_config = SimpleNamespace(enable_sequence_pipeline_parallel=False)
        scheduler._num_stages, scheduler._max_micro_batch_size = 1, slots
        scheduler._request_queue, scheduler._preempted_requests, scheduler._allocation_map = [], [], {}
        vars(scheduler).update(dict.fromkeys(COUNTERS, 0))
        self.requests: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.batch, self.preempted = None, []

    def add(self, message: dict[str, Any]) -> dict[str, Any]:
        length = len(message["prompt"])
        num_outputs = min(message["max_tokens"], self.config["max_model_len"] - length)
        request = Request(float(len(self.requests)), length, num_outputs)
        request.stops = {*message["stop_token_ids"], *([] if message["ignore_eos"] else [self.config["eos_token_id"]])}
        restart = request.restart
        request.restart = lambda: (self.preempted.append(message["id"]), restart())
        self.requests[message["id"]], self.names[request.id] = request, message["id"]
        self.scheduler.add_request(request)
        return {"ok": True}

    def abort(self, message: dict[str, Any]) -> dict[str, Any]:
        request = self.requests[message["id"]]
        if not request._completed:
            self.drop(request)
        return {"ok": True}

    def drop(self, request: Any) -> None:
        request._completed = True
        for queue in (self.scheduler._request_queue, self.scheduler._preempted_requests):
            if request in queue:
                queue.remove(request)
        if request.id in self.scheduler._allocation_map:
            self.scheduler.free(request.id)
        if self.batch and request in self.batch.requests:
            at = self.batch.requests.index(request)
            del self.batch._requests[at], self.batch._num_q_tokens[at]

    def step(self, message: dict[str, Any]) -> dict[str, Any]:
        self.preempted = []
        self.batch = self.scheduler._get_next_batch(0.0)
        pairs = list(zip(self.batch.requests, self.batch.num_q_tokens, strict=True)) if self.batch else []
        for request, _ in pairs:
            request.on_batch_schedule(0.0)
        scheduled = [{"id": self.names[request.id], "n": n} for request, n in pairs]
        return {"step": message["step"], "scheduled": scheduled, "preempted": self.preempted}

    def update(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.batch:
            for request, n in zip(self.batch.requests, self.batch.num_q_tokens, strict=True):
                request._is_prefill_stage_complete = True
                request.on_batch_end(0.0, n)
            self.scheduler._num_running_batches = 1
            self.scheduler.on_batch_end(self.batch)
            for request in list(self.batch.requests):
                tokens = message["sampled"].get(self.names[request.id], ())
                if not request._completed and request.stops.intersection(tokens):
                    self.drop(request)
        return {"step": message["step"]}


def main() -> None:
    engine: Any = None
    hello = {"protocol": 1, "engine": f"vidur {KIND}", "version": "0.0.26", "follows": "0.13.0", "has": HAS}
    for line in sys.stdin:
        message = json.loads(line)
        op, answer = message["op"], {"ok": True}
        if op == "hello":
            answer = hello
        elif op == "init":
            engine = Engine(message["config"])
        elif op != "end":
            answer = getattr(engine, op)(message)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
