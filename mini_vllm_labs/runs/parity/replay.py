"""Runs a scenario through our scheduler and compares it with the recording, step by step."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from zlib import crc32

from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.core.invariants import check_drained, check_state, check_step
from mini_vllm.core.request import Grammar, Request, RequestStatus
from mini_vllm.core.step import KVConnectorOutput, ScheduledRequest, SchedulerOutput
from mini_vllm.core.step_record import StepRecord
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.electives.releases.release_functions import ReleaseFunctions
from mini_vllm.electives.releases.reset import reset_prefix_cache, set_pause_state
from mini_vllm.electives.releases.step_state import PauseState
from mini_vllm.engine.observers import StepResult
from mini_vllm.engine.step_reasons import StepReasons
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.release_rules import RELEASES, rules_of
from mini_vllm_labs.runs.parity.gates_record import GatesRecorder
from mini_vllm_labs.runs.parity.known_fields import COMPARED, SOME_FIELDS
from mini_vllm_labs.runs.parity.scenario import Scenario


@dataclass(frozen=True)
class ReplayDifference:
    step: int
    field: str
    recorded: Any
    ours: Any

    def __str__(self) -> str:
        return f"step {self.step}, {self.field}\n  recorded  {self.recorded}\n  ours      {self.ours}"


class RecordedModel:
    """The fake model described in `traces/README.md`: a request continues after its last sampled token, even if
    preempted."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.num_sampled: Counter[str] = Counter()
        self.admitted: set[str] = set()  # drafts at admission are placeholders, and all of them are wrong

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> dict[str, list[int]]:
        """Return the tokens of each request that samples: one token, plus one per accepted draft."""
        return {one.request.request_id: self._sample(one) for one in batch if one.needs_token}

    def _sample(self, scheduled: ScheduledRequest) -> list[int]:
        request_id = scheduled.request.request_id
        first = self.num_sampled[request_id]
        last = first + self._num_accepted(request_id, first, scheduled.draft_token_ids)
        tokens = [self.scenario.output(request_id, index) for index in range(first, last + 1)]
        self.num_sampled[request_id] += len(tokens)
        return tokens

    def _num_accepted(self, request_id: str, first: int, drafts: Sequence[int]) -> int:
        if not drafts or request_id in self.admitted:
            return 0
        if self.scenario.line["config"]["async_scheduling"]:  # placeholders; the scenario determines how many are right
            accept = self.scenario.line["drafts"]["accept"]
            return min(len(drafts), int(accept[(crc32(f"d{request_id}:{first}".encode()) >> 8) % len(accept)]))
        wrong = (k for k, draft in enumerate(drafts) if draft != self.scenario.output(request_id, first + k))
        return next(wrong, len(drafts))


class ScenarioReplay:
    """Runs one scenario on one lineup and checks the invariants after every step.

    With `explain`, the records state why requests received no tokens.
    """

    def __init__(
        self,
        scenario: Scenario,
        lineup: Lineup,
        policy: SchedulingPolicy | None = None,
        releases: ReleaseFunctions | None = None,
        *,
        explain: bool = False,
    ) -> None:
        self.scenario = scenario
        self.config = scenario.config()
        evicted: list[int] = []
        self.connector = connector = scenario.connector()
        self.scheduler = build_scheduler(
            self.config,
            lineup,
            on_evict=evicted.append,
            make_connector=None if connector is None else lambda: connector,
            windows=scenario.windows,
            policy=policy,
            images_have_places=rules_of(self.config.vllm).images_have_places,
            releases=releases,
        )
        reasons = StepReasons(self.scheduler, self.config) if explain else None
        self.recorder = TraceRecorder(self.scheduler, evicted, reasons)
        self.gates_recorder = GatesRecorder(self.scheduler, self.connector)
        self.requests: dict[str, Request] = {}
        self.model = RecordedModel(scenario)
        self._fields: dict[str, Any] = {}
        self._in_flight: list[tuple[SchedulerOutput, dict[str, list[int]], KVConnectorOutput | None]] = []

    def run_step(self, number: int) -> StepRecord:
        """Run one step; if the engine raises an exception, add a note with the step to it."""
        try:
            return self._run_step(number)
        except Exception as error:
            error.add_note(f"in step {number} of {self.scenario.name}")
            raise

    def _run_step(self, number: int) -> StepRecord:
        self._fields = {}
        self._apply_events(number, before_update=False)
        self.recorder.before_schedule()
        step = self.scheduler.schedule()
        self.recorder.after_schedule(step)
        shares = self.recorder.steps[-1]["scheduled"]
        self._fields |= self.gates_recorder.after_schedule(shares)
        self.model.admitted = {share["id"] for share in shares if share["kind"] != "running"}
        check_step(self.scheduler, step)
        sampled = self.model.execute_model(self.scheduler.start_step(step))
        is_first = self.config.vllm == RELEASES[0]  # later releases' recorders ask for reports after aborts
        transfers = self.connector.take_output() if self.connector and is_first else None
        self._apply_events(number, before_update=True)
        transfers = self.connector.take_output() if self.connector and not is_first else transfers
        self._in_flight.append((step, sampled, transfers))
        kept: dict[str, list[int]] = {}
        update_of = number - self.config.async_scheduling
        if update_of >= 0:
            kept = self.scheduler.update_from_output(*self._in_flight.pop(0))
        ended = [self.requests[request_id] for request_id in kept if self.requests[request_id].is_finished]
        drafts = {} if self.config.async_scheduling else self._give_drafts(number, step)
        self.recorder.after_update(StepResult(step, sampled, kept, ended, drafts))
        record = self.recorder.steps[-1]
        record["update_of"] = update_of if update_of >= 0 else None
        self.some_fields = self._fields | self.gates_recorder.after_update(transfers)
        check_state(self.scheduler, self.config.policy)
        return record

    @property
    def is_drained(self) -> bool:
        """Whether all requests have finished and no step is in flight."""
        in_flight = any(step.num_scheduled_tokens for step, _, _ in self._in_flight)
        return not self.scheduler.has_unfinished_requests() and not in_flight

    def _give_drafts(self, number: int, step: SchedulerOutput) -> dict[str, list[int]]:
        """Set the recorded drafts of the step's requests, and return the nonempty ones."""
        recorded = self.scenario.steps[number]["drafts_given"] if number < len(self.scenario.steps) else {}
        living = [request_id for request_id in step.num_scheduled_tokens if request_id in self.scheduler.requests]
        self.scheduler.update_draft_token_ids({request_id: recorded.get(request_id, []) for request_id in living})
        return {request_id: recorded[request_id] for request_id in living if request_id in recorded}

    def _reset(self, *, drops: bool) -> None:
        if drops:  # tokens in flight are sampled again
            for request in self.scheduler.running:
                self.model.num_sampled[request.request_id] = request.num_output_tokens
        self._fields["reset_done"] = reset_prefix_cache(self.scheduler, reset_running_requests=drops)

    def summary(self) -> dict[str, Any]:
        """Return how each request ended, in the recording's format."""
        return {
            request.request_id: {
                "finish_reason": request.finish_reason,
                "output_len": request.num_output_tokens,
                "preemptions": request.num_preemptions,
                "first_hit": request.num_cached_tokens,
            }
            for request in self.requests.values()
        }

    def _apply_events(self, number: int, before_update: bool) -> None:
        for action, request_id in self.scenario.events(number, before_update):
            if action == "add":
                self.requests[request_id] = self.scenario.request(request_id)
                self.scheduler.add_request(self.requests[request_id])
                self.recorder.request_added(request_id)
            elif action == "compiled":
                grammar = self.requests[request_id].grammar
                assert grammar is not None
                grammar.set_result(cast(Grammar, None))  # unused, because there is no model
            elif action == "pause":
                set_pause_state(self.scheduler, PauseState(request_id))
            elif action == "reset":
                self._reset(drops=request_id == "running")
            elif self.scheduler.finish_request(request_id, RequestStatus.FINISHED_ABORTED):
                self.recorder.request_aborted(request_id)


def compare(
    scenario: Scenario,
    lineup: Lineup,
    policy: SchedulingPolicy | None = None,
    releases: ReleaseFunctions | None = None,
) -> ReplayDifference | None:
    """Replay a scenario and return the first difference from its recording, including block ids.

    `policy` replaces the scenario's policy and must make the same decisions. `releases` replaces the functions of phase
    14.
    """
    replay = ScenarioReplay(scenario, lineup, policy, releases)
    for number, recorded in enumerate(scenario.steps):
        ours = replay.run_step(number)
        for field in COMPARED:
            value = ours[field]  # type: ignore[literal-required]
            if value != recorded[field] and as_json(value) != _comparable(field, recorded[field]):
                return ReplayDifference(number, field, recorded[field], as_json(value))
        for field in SOME_FIELDS:
            if field in recorded and as_json(replay.some_fields.get(field)) != _comparable(field, recorded[field]):
                return ReplayDifference(number, field, recorded[field], as_json(replay.some_fields.get(field)))
        for field, expected in recorded.get("detail", {}).items():
            if ours["detail"][field] != expected:
                return ReplayDifference(number, f"detail.{field}", expected, ours["detail"][field])
    expected_summary = scenario.line["trace"]["requests"]
    if replay.summary() != expected_summary:
        return ReplayDifference(len(scenario.steps), "requests", expected_summary, replay.summary())
    return None


def run_free_of_defects(scenario: Scenario, lineup: Lineup) -> None:
    """Run a scenario that shows a vLLM defect. Raises `InvariantError` if our engine breaks an invariant."""
    replay = ScenarioReplay(scenario, lineup)
    last_event = max(event["step"] for event in scenario.line["events"])
    for number in range(scenario.max_steps):
        replay.run_step(number)
        if number >= last_event and replay.is_drained:
            check_drained(replay.scheduler)
            return


def _comparable(field: str, recorded: Any) -> Any:
    """Normalise a recorded field: sort lost blocks and the requests that use an encoding, because neither has an
    inherent order."""
    if field == "preempted":  # a reset preempts requests without any other request being the cause
        return [[victim, cause or "", num_tokens] for victim, cause, num_tokens in recorded]
    if field == "transfers":
        return {**recorded, "invalid": sorted(recorded["invalid"])}
    if field == "encoder_after":
        return {**recorded, "cached": {content: sorted(users) for content, users in recorded["cached"].items()}}
    return recorded


def as_json(value: Any) -> Any:
    """Convert a value as a round trip through JSON would: tuples become lists."""
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    return value
