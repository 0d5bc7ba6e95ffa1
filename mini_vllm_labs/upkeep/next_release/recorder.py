"""Drives the installed vLLM's stock scheduler through a scenario and returns the trace.

The format is described in `traces/README.md` and `traces33/README.md`. A field that the release cannot report is
omitted. Wrappers around vLLM's functions observe it without changing anything.
"""

from types import SimpleNamespace
from typing import Any
from zlib import crc32

from vllm.v1.core.sched import interface
from vllm.v1.outputs import DraftTokenIds, KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import RequestStatus

from mini_vllm_labs.inside_vllm.decisions import REASONS, Decisions, Step
from mini_vllm_labs.inside_vllm.stock_scheduler import VERSION, make_request, make_scheduler
from mini_vllm_labs.runs.parity.replay import RecordedModel
from mini_vllm_labs.runs.parity.scenario import Scenario
from mini_vllm_labs.runs.parity.transfers import RecordedConnector

PAUSES = {"off": "UNPAUSED", "new": "PAUSED_NEW", "all": "PAUSED_ALL"}


class Connector:
    """The scenario's connector with vLLM's interface; methods that are not needed here do nothing."""

    supports_divergent_local_hybrid_hits = False

    def __init__(self, recorded: RecordedConnector) -> None:
        self.recorded, self.begun = recorded, list[list[Any]]()

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Any:
        return self.recorded.get_num_new_matched_tokens(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        table = list(blocks.get_block_ids()[0])
        self.recorded.update_state_after_alloc(request, table, num_external_tokens)
        if num_external_tokens:
            self.begun.append([request.request_id, num_external_tokens])

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        return self.recorded.request_finished(request, block_ids), None

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:
        return (0,)

    def take_events(self) -> tuple[()]:
        return ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **options: None


class AnyText:
    """A compiled grammar that allows every token."""

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        return tokens


class Recorder:
    """Records one scenario. Raises `ValueError` if the release rejects it."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.config = scenario, scenario.line["config"]
        self.is_async, self.is_first = self.config["async_scheduling"], "version" not in self.config
        self.scheduler = make_scheduler(self.config)
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.connector: Connector | None = None
        if described := self.config.get("connector"):
            requests, size = scenario.line["requests"], self.config["block_size"]
            recorded = RecordedConnector(requests, size, is_async=described["async"], reports_aborted=True)
            self.connector = self.scheduler.connector = Connector(recorded)
            self.scheduler.defer_block_free = self.is_async  # set by a connector that receives blocks
        self.model = RecordedModel(scenario)
        self.requests: dict[str, Any] = {}
        self.first_hits: dict[str, int] = {}
        self.in_flight: list[tuple[int, Any, dict[str, list[int]], Any]] = []
        self.told: set[str] = set()
        self.decisions = Decisions(self.scheduler, self.config["block_size"])

    def run(self) -> dict[str, Any]:
        """Run the scenario to its end and return its `trace`."""
        steps, last_event = list[Step](), max(event["step"] for event in self.scenario.line["events"])
        for number in range(self.scenario.max_steps):
            steps.append(self._run_step(number))
            busy = self.scheduler.requests or any(one[1].total_num_scheduled_tokens for one in self.in_flight)
            if number >= last_event and not busy:
                break
        requests = {
            request_id: {
                "finish_reason": REASONS.get(request.status.name),
                "output_len": request.num_output_tokens,
                "preemptions": request.num_preemptions,
                "first_hit": self.first_hits.get(request_id, -1),
            }
            for request_id, request in self.requests.items()
        }
        usable = self.pool.num_gpu_blocks - 1
        return {"recorded_from": f"vLLM {VERSION}", "usable_blocks": usable, "steps": steps, "requests": requests}

    def _run_step(self, number: int) -> Step:
        step: Step = {"step": number, "added": [], "aborted": [], "aborted_before_update": []}
        self.decisions.begin()
        self._apply_events(step, "aborted", before_update=False)
        placeholders = {one.request_id: one.num_output_placeholders for one in self.scheduler.running}
        output = self.scheduler.schedule()
        step |= self._described(output)
        sampled = step["sampled"] = self._sample(output, placeholders, step["scheduled"])
        if has_details := "detail" in self.scenario.steps[0]:
            step["detail"] = {"shared": {f"{one.block_id}": one.ref_cnt for one in self.pool.blocks if one.ref_cnt > 1}}
        transfers = self._transfers() if self.is_first else None  # the recorders read these at different moments
        self._apply_events(step, "aborted_before_update", before_update=True)
        transfers = transfers if self.is_first else self._transfers()
        if transfers:
            step["transfers"] = transfers
        self.in_flight.append((number, output, sampled, transfers))
        step |= {"update_of": None, "output": [], "finished": [], "drafts_given": {}}
        if len(self.in_flight) > self.is_async:
            self._update(step, *self.in_flight.pop(0))
        step |= self._state()
        if has_details:
            free = self.pool.free_block_queue.get_all_free_blocks()
            step["detail"]["free_queue"] = [one.block_id for one in free]
            step["detail"]["cached"] = [one.block_id for one in self.pool.blocks if one.block_hash is not None]
        return step

    def _apply_events(self, step: Step, aborted: str, *, before_update: bool) -> None:
        for action, value in self.scenario.events(step["step"], before_update):
            request = self.requests.get(value)
            if action == "add":
                described = self.scenario.line["requests"][value]
                self.requests[value] = make_request(value, self.scenario.prompt(value), described, self.config)
                self.scheduler.add_request(self.requests[value])
                step["added"].append(value)
            elif action == "abort" and request is not None and not request.is_finished():
                self.scheduler.finish_requests(value, RequestStatus.FINISHED_ABORTED)
                step[aborted].append(value)
            elif action == "compiled" and request is not None:
                request.structured_output_request.grammar = AnyText()
            elif action == "pause":
                if not hasattr(interface, "PauseState"):
                    raise ValueError(f"vLLM {VERSION} cannot be paused: pausing was added in 0.17")
                self.scheduler.set_pause_state(interface.PauseState[PAUSES[value]])
            elif action == "reset":
                step["reset_done"] = self._reset(drops=value == "running")

    def _reset(self, *, drops: bool) -> bool:
        self.decisions.cause = None
        if drops:  # tokens in flight are sampled again
            for request in self.scheduler.running:
                self.model.num_sampled[request.request_id] = request.num_output_tokens
        return bool(self.scheduler.reset_prefix_cache(reset_running_requests=drops))

    def _sample(self, output: Any, placeholders: dict[str, int], shares: list[Step]) -> dict[str, list[int]]:
        self.model.admitted = {share["id"] for share in shares if share["kind"] != "running"}
        batch = list[Any]()
        for request_id in output.num_scheduled_tokens:
            request = self.scheduler.requests[request_id]
            drafts = output.scheduled_spec_decode_tokens.get(request_id, [])
            num_known = request.num_tokens + placeholders.get(request_id, 0)
            samples = request.num_computed_tokens - len(drafts) >= num_known
            batch.append(SimpleNamespace(request=request, needs_token=samples, draft_token_ids=drafts))
        return self.model.execute_model(batch)

    def _transfers(self) -> dict[str, list[Any]] | None:
        if self.connector is None:
            return None
        output = self.connector.recorded.take_output()
        if output is None:
            return None
        # A release that keeps an aborted load's blocks until a report arrives needs that report.
        received = [one for one in output.finished_recving if one in self.scheduler.requests]
        sent, invalid = list(output.finished_sending), sorted(output.invalid_block_ids)
        found: dict[str, list[Any]] = {"received": received, "sent": sent, "invalid": invalid}
        return found if any(found.values()) else None

    def _update(self, step: Step, number: int, output: Any, sampled: dict[str, list[int]], transfers: Any) -> None:
        step["update_of"] = number
        order = list(output.num_scheduled_tokens)
        living = [request_id for request_id in order if request_id in self.scheduler.requests]
        found = self.scheduler.update_from_output(output, _model_output(order, sampled, transfers))
        step["output"] = [[one.request_id, list(one.new_token_ids)] for one in (found[0].outputs if 0 in found else ())]
        for request_id in living:
            request = self.requests[request_id]
            reason = REASONS.get(request.status.name) if request.is_finished() else None
            if reason in ("stop", "length") and request_id not in self.told:
                self.told.add(request_id)
                step["finished"].append([request_id, reason, request.stop_reason])
        if self.config["spec"] and not self.is_async and order:
            most = getattr(output, "num_spec_tokens_to_schedule", self.config["spec"]["num_speculative_tokens"])
            drafts = [self._draft(request_id)[:most] if request_id in sampled else [] for request_id in order]
            step["drafts_given"] = {one: given for one, given in zip(order, drafts, strict=True) if given}
            self.scheduler.update_draft_token_ids(DraftTokenIds(req_ids=order, draft_token_ids=drafts))

    def _draft(self, request_id: str) -> list[int]:
        """Return the scenario's drafts: accepted drafts equal what the model will sample, and all others are one
        higher."""
        if self.requests[request_id].is_finished():
            return []
        first, plan = self.model.num_sampled[request_id], self.scenario.line["drafts"]
        chance = crc32(f"d{request_id}:{first}".encode())
        num_drafts = plan["propose"][chance % len(plan["propose"])]
        num_right = plan["accept"][(chance >> 8) % len(plan["accept"])]
        return [self.scenario.output(request_id, first + k) + (k >= num_right) for k in range(num_drafts)]

    def _described(self, output: Any) -> Step:
        """Describe the plan."""
        described = self.decisions.plan(output)
        for share in described["scheduled"]:
            if share["kind"] != "running":
                self.first_hits.setdefault(share["id"], share["hit"])
        if self.config["spec"] and hasattr(output, "skip_drafts"):
            described["skip_drafts"] = output.skip_drafts
        if self.config["spec"] and self.config["spec"].get("per_batch_size"):
            described["drafts_wanted"] = output.num_spec_tokens_to_schedule
        if self.connector is not None:
            begun, self.connector.begun = self.connector.begun, []
            described["loading"] = [[*one, self.decisions.tables(one[0])[0]] for one in begun]
        if self.config.get("encoder"):
            described["encodings_freed"] = list(output.free_encoder_mm_hashes)
        return described

    def _state(self) -> Step:
        scheduler, waiting, state = self.scheduler, self.decisions.waiting(), self.decisions.state()
        if hasattr(scheduler, "deferred_waiting"):
            state["deferred_after"] = sorted(one.request_id for one in scheduler.deferred_waiting)
        if self.config.get("grammar") or self.config.get("connector"):
            held = [one for one in waiting if one.status.name.startswith("WAITING_FOR")]
            state["held_after"] = [[one.request_id, one.status.name, one.num_computed_tokens] for one in held]
        if self.config.get("encoder"):
            cache = scheduler.encoder_cache_manager
            users = {content: sorted(using) for content, using in cache.cached.items()}
            freeable = list(cache.freeable)
            state["encoder_after"] = {"free": cache.num_free_slots, "freeable": freeable, "cached": users}
        return state


def _model_output(order: list[str], sampled: dict[str, list[int]], transfers: Any) -> Any:
    reported = None
    if transfers:
        # Lists, because the order matters and sets are unordered.
        reported = KVConnectorOutput(
            finished_sending=transfers["sent"],
            finished_recving=transfers["received"],
            invalid_block_ids=set(transfers["invalid"]),
        )
    return ModelRunnerOutput(
        req_ids=order,
        req_id_to_index={request_id: place for place, request_id in enumerate(order)},
        sampled_token_ids=[list(sampled.get(request_id, ())) for request_id in order],
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
        kv_connector_output=reported,
    )
