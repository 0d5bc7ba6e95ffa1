"""Describes the decisions that a scheduler makes in one step inside vLLM, in the format of recorded traces."""

from typing import Any

from mini_vllm_labs.inside_vllm.learner_scheduler import LearnerScheduler

REASONS = {"FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length", "FINISHED_ABORTED": "abort"}
Step = dict[str, Any]


class Decisions:
    """The plan and the state of the stock scheduler. Wrappers around vLLM's functions observe it without changing
    anything."""

    def __init__(self, scheduler: Any, block_size: int) -> None:
        self.scheduler, self.block_size = scheduler, block_size
        self.admitted: set[str] = set()
        self.preempted: list[list[Any]] = []
        self.evicted: list[int] = []
        self.observe()

    def observe(self) -> None:
        scheduler, manager = self.scheduler, self.scheduler.kv_cache_manager
        self.pool = manager.block_pool
        self.cause: str | None = None  # the request that slots are being allocated for
        self.taken: dict[str, int] = {}
        preempt, evict, allocate = (
            scheduler._preempt_request,
            self.pool._maybe_evict_cached_block,
            manager.allocate_slots,
        )

        def preempting(request: Any, *args: Any, **options: Any) -> Any:
            self.preempted.append([request.request_id, self.cause, self.taken.pop(request.request_id, 0)])
            return preempt(request, *args, **options)

        def evicting(block: Any, *args: Any, **options: Any) -> Any:
            if evicted := evict(block, *args, **options):
                self.evicted.append(block.block_id)
            return evicted

        def allocating(request: Any, num_new_tokens: int, *args: Any, **options: Any) -> Any:
            self.cause = request.request_id
            blocks = allocate(request, num_new_tokens, *args, **options)
            if blocks is not None:
                self.taken[request.request_id] = num_new_tokens
            return blocks

        scheduler._preempt_request, manager.allocate_slots = preempting, allocating
        self.pool._maybe_evict_cached_block = evicting

    def begin(self) -> None:
        """Forget the adapters of the last step."""
        self.preempted, self.evicted, self.taken = [], [], {}

    def tables(self, request_id: str) -> list[list[int]]:
        return [list(table) for table in self.scheduler.kv_cache_manager.get_block_ids(request_id)]

    def num_free_blocks(self) -> int:
        return int(self.pool.get_num_free_blocks())

    def plan(self, output: Any) -> Step:
        """Describe the plan."""
        cached = output.scheduled_cached_reqs
        new = {one.req_id: one.num_computed_tokens for one in output.scheduled_new_reqs}
        resumed = {one for one in new if one in self.admitted} | set(cached.resumed_req_ids)
        computed = new | dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        increments = dict(zip(cached.req_ids, cached.new_block_ids, strict=True))
        shares = []
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            tables = self.tables(request_id)
            share: Step = {"id": request_id, "kind": "running", "computed": computed[request_id], "n": num_tokens}
            if request_id in new or request_id in resumed:
                share["kind"] = "resumed" if request_id in resumed else "new"
                share["hit"] = share["computed"]
                share["new_blocks"] = tables[0][-(-share["hit"] // self.block_size) :]
            else:
                share["new_blocks"] = list(increments[request_id][0]) if increments[request_id] else []
            self.admitted.add(request_id)
            share["blocks"] = tables[0]
            if len(tables) > 1:
                share["sliding_blocks"] = tables[1]
            if request_id in output.scheduled_encoder_inputs:
                share["encode"] = list(output.scheduled_encoder_inputs[request_id])
            if drafts := output.scheduled_spec_decode_tokens.get(request_id):
                share["drafts"] = list(drafts)
            shares.append(share)
        return {
            "scheduled": shares,
            "total": output.total_num_scheduled_tokens,
            "preempted": self.preempted,
            "evicted": self.evicted,
            "finished_sent": sorted(output.finished_req_ids),
            "free_after_schedule": self.num_free_blocks(),
        }

    def waiting(self) -> list[Any]:
        # Since 0.31, requests that hold blocks wait in a separate queue; from 0.18 to 0.30, all skipped requests waited
        # there.
        scheduler = self.scheduler
        first = getattr(scheduler, "kv_holding_waiting", None) or getattr(scheduler, "skipped_waiting", None) or ()
        return [*first, *scheduler.waiting]

    def state(self) -> Step:
        """Describe the state after the update."""
        return {
            "free_after_update": self.num_free_blocks(),
            "running_after": [
                [one.request_id, one.num_tokens, one.num_computed_tokens, one.num_output_placeholders]
                for one in self.scheduler.running
            ],
            "waiting_after": [one.request_id for one in self.waiting()],
        }


class LearnersDecisions(Decisions):
    """The plan and the state of the learner's scheduler, which reports them without wrappers."""

    def observe(self) -> None:
        self.kv = self.scheduler.scheduler.kv

    def tables(self, request_id: str) -> list[list[int]]:
        return [list(self.kv.block_ids(request_id))]

    def num_free_blocks(self) -> int:
        return int(self.kv.num_free_blocks)

    def plan(self, output: Any) -> Step:
        scheduler: LearnerScheduler = self.scheduler
        self.evicted = list(scheduler.evicted)
        self.preempted = [
            [one.victim_id, one.cause_id, one.num_tokens_returned] for one in scheduler.newest_plan.preempted
        ]
        return super().plan(output)


def record(scheduler: Any, block_size: int) -> list[Step]:
    """Return a list to which each step of a live scheduler appends its `StepRecord`, without details of the block
    pool."""
    own = isinstance(scheduler, LearnerScheduler)
    decisions = (LearnersDecisions if own else Decisions)(scheduler, block_size)
    schedule, update, steps, known = scheduler.schedule, scheduler.update_from_output, list[Step](), dict[str, Any]()

    def scheduled(*args: Any, **options: Any) -> Any:
        added = [name for name in scheduler.requests if name not in known]
        known.update({name: scheduler.requests[name] for name in added})
        decisions.begin()
        output = schedule(*args, **options)
        none: Step = {"aborted": [], "aborted_before_update": [], "sampled": {}, "update_of": len(steps)}
        plan = {"step": len(steps), "added": added} | decisions.plan(output) | none
        steps.append(plan | {"output": [], "finished": [], "drafts_given": {}, "detail": {}} | decisions.state())
        return output

    def updated(output: Any, sampled: Any) -> Any:
        step, living = steps[-1], [known[name] for name in output.num_scheduled_tokens]
        lengths = [one.num_output_tokens for one in living]
        found = update(output, sampled)
        for one, length in zip(living, lengths, strict=True):
            if token_ids := list(one.output_token_ids)[length:]:
                step["output"].append([one.request_id, token_ids])
                step["sampled"][one.request_id] = token_ids
            if one.is_finished():
                step["finished"].append([one.request_id, REASONS.get(one.status.name), one.stop_reason])
        steps[-1] |= decisions.state()
        return found

    scheduler.schedule, scheduler.update_from_output = scheduled, updated
    return steps
