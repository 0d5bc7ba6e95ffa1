"""Drafts in simulated time: which of them are right is drawn, and what they cost is counted."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from arena.contest import AnyLoad
from arena.figures import ClassFigures, class_figures
from course.simulator.cost_model import CostModel, count_batch
from course.simulator.simulation import Simulation
from course.workloads.simulated_time import VirtualClock
from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.engine.errors import StalledError
from policies.drafts_by_class import DraftsByClass

LEAST_RIGHT, MOST_RIGHT = 0.6, 0.9  # the share of its tokens that a request's drafts guess is drawn between these


@dataclass(frozen=True, slots=True)
class Drafter:
    """A draft model that guesses `num_drafts` tokens for every request that decodes, 0 for none, in as many passes.

    `cost` is the time of its passes. The first one computes what the target computed in the step, prompts too.
    """

    cost: CostModel
    num_drafts: int

    def seconds(self, batch: Sequence[ScheduledRequest]) -> float:
        """Return the time of all passes after a step with this batch."""
        if not self.num_drafts or not batch:
            return 0.0
        rows = [replace(row, num_scheduled_tokens=1, draft_token_ids=()) for row in batch if row.needs_token]
        return self.cost.seconds(batch) + (self.num_drafts - 1) * self.cost.seconds(rows)


@dataclass(frozen=True, slots=True)
class DraftedRace:
    """One simulation: at most `limits` drafts by class on a load with a seed. `lineup` has phase 7."""

    limits: dict[str, int]
    drafter: Drafter
    load: AnyLoad
    seed: int
    engine: EngineConfig
    cost: CostModel
    lineup: Lineup


class DraftedSimulation(Simulation):
    """A simulation in which a step brings a request its right drafts and one token more.

    `is_guessed` says of each token of each answer whether the drafter guesses it, so all races have the same texts.
    """

    def __init__(self, race: DraftedRace) -> None:
        requests, clock = race.load.requests(race.seed), VirtualClock()
        most = max(1, race.drafter.num_drafts)
        speculation = SpeculativeConfig(method="draft_model", num_speculative_tokens=most)
        config, policy = replace(race.engine, speculative_config=speculation), DraftsByClass(race.limits, others=0)
        scheduler: Scheduler = build_scheduler(config, race.lineup, policy=policy, clock=lambda: clock.now)
        super().__init__(requests, scheduler, race.cost, clock=clock)
        self.drafter = race.drafter
        rng = random.Random(f"{race.seed} drafts")
        self.is_guessed = [
            draw_guesses(rng, rng.uniform(LEAST_RIGHT, MOST_RIGHT), request.num_output_tokens) for request in requests
        ]
        self.num_verified = self.num_accepted = 0

    def _step(self) -> None:
        scheduler = self.scheduler
        step = scheduler.schedule()
        if not step.num_scheduled_tokens and not step.preempted:
            raise StalledError(f"no request can be scheduled any more: {self.num_finished} requests were served")
        batch = scheduler.start_step(step)
        if batch:
            self.clock.advance(self.cost.seconds(batch) + self.drafter.seconds(batch))
        self.served.num_steps += 1
        self.served.num_preemptions += len(step.preempted)
        self.served.num_computed_tokens += count_batch(batch).num_tokens
        sampling = [row for row in batch if row.needs_token]
        for row in sampling:
            if not row.request.num_output_tokens:
                self.served.first_token_times[int(row.request.request_id)] = self.clock.now
        scheduler.update_from_output(step, {row.request.request_id: self._sampled(row) for row in sampling})
        for request_id in scheduler.finished_req_ids:
            self.served.finished_times[int(request_id)] = self.clock.now
            self.num_finished += 1
        self._draft(row for row in sampling if not row.request.is_finished)

    def _sampled(self, row: ScheduledRequest) -> list[int]:
        """Return the request's right drafts and the token that follows them; any token will do."""
        request, num_drafts = row.request, len(row.draft_token_ids)
        first = request.num_output_tokens
        guesses = self.is_guessed[int(request.request_id)][first : first + num_drafts]
        num_right = sum(takewhile(bool, guesses))
        self.num_verified += num_drafts
        self.num_accepted += num_right
        return [request.prompt_token_ids[-1]] * (num_right + 1)

    def _draft(self, rows: Iterable[ScheduledRequest]) -> None:
        drafts: dict[str, list[int]] = {}
        for request in (row.request for row in rows):
            # A step brings one token more than its drafts, and none is kept after the last one.
            num_left = self.requests[int(request.request_id)].num_output_tokens - request.num_output_tokens - 1
            drafts[request.request_id] = [request.prompt_token_ids[-1]] * min(self.drafter.num_drafts, num_left)
        self.scheduler.update_draft_token_ids(drafts)


def draw_guesses(rng: random.Random, share: float, num_tokens: int) -> list[bool]:
    return [rng.random() < share for _ in range(num_tokens)]


def run_drafted(race: DraftedRace) -> dict[str, ClassFigures]:
    """Simulate one race; return the figures of each class. Raises `ValueError` like `Simulation.run`."""
    return class_figures(DraftedSimulation(race).run())
