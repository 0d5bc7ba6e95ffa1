"""Simulates drafts: decides at random which drafts are correct, and adds their cost to simulated time."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.policies.drafts_by_class import DraftsByClass
from mini_vllm_labs.runs.workloads.simulated_time import VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.arena.contest import AnyLoad
from mini_vllm_labs.simulation.arena.figures import ClassFigures, class_figures
from mini_vllm_labs.simulation.arena.loads import URGENT, ArenaLoad
from mini_vllm_labs.simulation.cost_model import CostModel, count_batch
from mini_vllm_labs.simulation.simulation import Simulation

MIN_ACCEPTANCE, MAX_ACCEPTANCE = 0.6, 0.9  # the range of a request's random rate; assumed, not measured
HURRIED = replace(URGENT, tpot=0.01)


@dataclass(frozen=True, slots=True)
class HurriedLoad(ArenaLoad):
    """A load whose urgent requests need a token every 10 ms."""

    def requests(self, seed: int) -> list[TimedRequest]:
        found = ArenaLoad.requests(self, seed)
        return [replace(each, service_level=HURRIED) if each.service_level is URGENT else each for each in found]


@dataclass(frozen=True, slots=True)
class Drafter:
    """A draft model that guesses `num_drafts` tokens for each decoding request, with one pass per token.

    `cost` gives the time that its passes take. The first pass computes all tokens of the target's step, including
    prompts.
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
    """One simulation of a load with a given seed; `policy` limits the drafts. `lineup` must have phase 7."""

    policy: DraftsByClass
    drafter: Drafter
    load: AnyLoad
    seed: int
    engine: EngineConfig
    cost: CostModel
    lineup: Lineup


class DraftedSimulation(Simulation):
    """A simulation in which a step gives each request its correct drafts and one more token.

    `is_guessed` states, for each token of each answer, whether the drafter guesses it; it is the same in all races with
    the same seed. Drafts that the policy discards still cost time.
    """

    def __init__(self, race: DraftedRace) -> None:
        requests, clock = race.load.requests(race.seed), VirtualClock()
        num_drafts, config = race.drafter.num_drafts, race.engine
        if num_drafts:
            speculation = SpeculativeConfig(method="draft_model", num_speculative_tokens=num_drafts)
            config = replace(config, speculative_config=speculation)
        scheduler = build_scheduler(config, race.lineup, policy=race.policy, clock=lambda: clock.now)
        super().__init__(requests, scheduler, race.cost, clock=clock)
        self.drafter = race.drafter
        rng = random.Random(f"{race.seed} drafts")
        self.is_guessed = [draw_guesses(rng, request.num_output_tokens) for request in requests]

    def _step(self) -> None:
        step = self._plan()
        batch = self.scheduler.start_step(step)
        if batch:
            self.clock.advance(self.cost.seconds(batch) + self.drafter.seconds(batch))
        self.served.num_steps += 1
        self.served.num_preemptions += len(step.preempted)
        self.served.num_computed_tokens += count_batch(batch).num_tokens
        sampling = [row for row in batch if row.needs_token]
        for row in sampling:
            if not row.request.num_output_tokens:
                self.served.first_token_times[int(row.request.request_id)] = self.clock.now
        self.scheduler.update_from_output(step, {row.request.request_id: self._sampled(row) for row in sampling})
        self._note_finished()
        self._draft(row for row in sampling if not row.request.is_finished)

    def _sampled(self, row: ScheduledRequest) -> list[int]:
        """Return the request's correct drafts and the token that follows them, which may be any token."""
        request, num_drafts = row.request, len(row.draft_token_ids)
        first = request.num_output_tokens
        guesses = self.is_guessed[int(request.request_id)][first : first + num_drafts]
        return [request.prompt_token_ids[-1]] * (1 + sum(takewhile(bool, guesses)))

    def _draft(self, rows: Iterable[ScheduledRequest]) -> None:
        drafts: dict[str, list[int]] = {}
        for request in (row.request for row in rows):
            # A step yields one token more than it has drafts; tokens after the request's last token are discarded.
            num_left = self.requests[int(request.request_id)].num_output_tokens - request.num_output_tokens - 1
            drafts[request.request_id] = [request.prompt_token_ids[-1]] * min(self.drafter.num_drafts, num_left)
        self.scheduler.update_draft_token_ids(drafts)


def draw_guesses(rng: random.Random, num_tokens: int) -> list[bool]:
    share = rng.uniform(MIN_ACCEPTANCE, MAX_ACCEPTANCE)
    return [rng.random() < share for _ in range(num_tokens)]


def run_drafted(race: DraftedRace) -> dict[str, ClassFigures]:
    """Simulate one race, and return each class's figures. Raises `ValueError` like `Simulation.run`."""
    return class_figures(DraftedSimulation(race).run())
