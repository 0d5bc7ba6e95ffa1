"""Simulates several engines, each on its own GPU, behind a router."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.serving.router.policies import Router, chained
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.simulation import Simulation


@dataclass(frozen=True)
class FleetServed:
    """The result of a run; `replicas` says which replica served each request, in order of arrival."""

    requests: Sequence[TimedRequest]
    simulations: Sequence[Simulation]
    replicas: Sequence[int]

    @cached_property
    def times_to_first_token(self) -> list[float]:
        """Seconds from arrival to the first token, in order of arrival."""
        return [
            self.simulations[replica].served.first_token_times[index] - request.arrival_time
            for index, (request, replica) in enumerate(zip(self.requests, self.replicas, strict=True))
        ]

    def time_to_first_token(self, percents: Sequence[float]) -> list[float]:
        """Return percentiles of the time to first token, in seconds."""
        return percentiles(self.times_to_first_token, percents)

    @property
    def hit_rate(self) -> float:
        """The share of prompt tokens that came from the replicas' prefix caches."""
        prompts = [0] * len(self.simulations)
        for request, replica in zip(self.requests, self.replicas, strict=True):
            prompts[replica] += request.num_prompt_tokens
        hits = (one.served.hit_rate * tokens for one, tokens in zip(self.simulations, prompts, strict=True))
        return sum(hits) / sum(prompts)

    @property
    def num_computed_tokens(self) -> int:
        return sum(one.served.num_computed_tokens for one in self.simulations)

    @property
    def largest_share(self) -> float:
        """The share of requests that went to the busiest replica."""
        return max(self.replicas.count(replica) for replica in range(len(self.simulations))) / len(self.requests)


def simulate_fleet(
    requests: Sequence[TimedRequest],
    config: EngineConfig,
    cost: CostModel,
    lineup: Lineup,
    router: Router,
    num_replicas: int,
) -> FleetServed:
    """Send each request on arrival to the replica that the router chooses. Raises the same errors as `simulate`."""
    fleet = [Simulation(requests, build_scheduler(config, lineup), cost) for _ in range(num_replicas)]
    num_sent, replicas = [0] * num_replicas, []
    fleet[0].require_servable()  # all replicas are equally fast
    for index, request in enumerate(requests):
        for simulation in fleet:
            # the same for all replicas, because the router sees their current loads
            simulation.serve_until(request.arrival_time)
        loads = {replica: num_sent[replica] - one.num_finished for replica, one in enumerate(fleet)}
        replica = router.choose(prefix_of(request, config.block_size), loads)
        fleet[replica].add_request(index)
        num_sent[replica] += 1
        replicas.append(replica)
    for simulation in fleet:
        simulation.finish()
    return FleetServed(requests, fleet, replicas)


def prefix_of(request: TimedRequest, block_size: int) -> list[int]:
    """Return the keys of a prompt's full blocks."""
    tokens = list(request.prompt_token_ids)
    starts = range(0, len(tokens) - block_size + 1, block_size)
    return chained([tuple(tokens[start : start + block_size]) for start in starts])
