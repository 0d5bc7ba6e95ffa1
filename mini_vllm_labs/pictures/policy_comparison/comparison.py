"""Serves the same requests under each policy, with the lineup's engine in simulated time."""

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import quantiles

from mini_vllm.assembly.lineup import Lineup
from mini_vllm_labs.policies.named import SIGMA
from mini_vllm_labs.policies.predictors import noisy
from mini_vllm_labs.policies.shortest_first import ShortestFirst
from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.runs.workloads.urgency import URGENT, with_urgent
from mini_vllm_labs.simulation.experiment import NUM_SAMPLED_REQUESTS, Experiment, sustainable_rate
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.simulation import output_lengths, simulate, simulate_under
from mini_vllm_labs.simulation.workloads import make_requests

BY_GUESSES = "sjf-noisy"  # the only policy that depends on `prediction_sigma`
COMPARED = ("fcfs", "priority", BY_GUESSES)
P95 = 95


@dataclass(frozen=True)
class PolicyComparison:
    """The workload, the deployment, and the policies, given by their names in `mini_vllm_labs.policies`.

    `load` is a percentage of the rate that the GPU sustains with this number of blocks. `prediction_sigma` is the error
    in the output lengths that `sjf-noisy` predicts (see `noisy`).
    """

    workload: str = "shared-prefix"
    load: int = 150
    num_gpu_blocks: int = 800
    prediction_sigma: float = SIGMA
    num_requests: int = 76  # few enough that all figures can be computed while a knob is dragged
    gpu: str = "H100"
    model: str = "Llama-3.1-8B"
    policies: tuple[str, ...] = COMPARED

    @property
    def experiment(self) -> Experiment:
        experiment = Experiment(self.workload, self.num_requests, gpu=self.gpu, model=self.model)
        return replace(experiment, engine=replace(experiment.engine, num_gpu_blocks=self.num_gpu_blocks))

    @cached_property
    def rate(self) -> float:
        sample = make_requests(self.workload, NUM_SAMPLED_REQUESTS, 1.0)
        return self.load / 100 * sustainable_rate(sample, self.experiment.resolved_engine(), self.experiment.cost)


@dataclass(frozen=True)
class PolicyResult:
    """The result of serving the requests under one policy, and the engine's lineup."""

    policy: str
    served: Served
    lineup: Lineup

    @cached_property
    def times_to_first_token(self) -> list[float]:
        """Seconds from each request's arrival to its first token."""
        return self.served.times_to_first_token

    @cached_property
    def _known(self) -> dict[tuple[str, float, frozenset[int] | None], float]:
        """The percentiles computed so far, because dragging the SLO needs the same percentiles repeatedly."""
        return {}

    def time_to_first_token(self, percent: float, group: frozenset[int] | None = None) -> float:
        """Return a percentile in seconds, over all requests or over a group given by indices."""
        asked, times = ("first", percent, group), self.times_to_first_token
        if asked not in self._known:
            self._known[asked] = percentiles(times if group is None else [times[i] for i in group], [percent])[0]
        return self._known[asked]

    def inter_token_latency(self, percent: float) -> float:
        """Return a percentile in seconds, over all tokens."""
        asked = ("between", percent, None)
        if asked not in self._known:
            self._known[asked] = self.served.inter_token_latency([percent])[0]
        return self._known[asked]


def compare_policies(comparison: PolicyComparison, lineup: Lineup) -> list[PolicyResult]:
    """Serve the same requests under each policy. Raises `ValueError` and `StalledError` like `simulate`."""
    return [serve_under(policy, comparison, lineup) for policy in comparison.policies]


def serve_under(policy: str, comparison: PolicyComparison, lineup: Lineup) -> PolicyResult:
    requests = with_urgent(make_requests(comparison.workload, comparison.num_requests, comparison.rate))
    config, cost = comparison.experiment.resolved_engine(), comparison.experiment.cost
    if policy == BY_GUESSES:
        by_guesses = ShortestFirst(noisy(output_lengths(requests), comparison.prediction_sigma))
        return PolicyResult(policy, simulate(requests, config, cost, lineup, policy=by_guesses), lineup)
    return PolicyResult(policy, simulate_under(policy, requests, config, cost, lineup), lineup)


def groups(results: list[PolicyResult]) -> dict[str, frozenset[int]]:
    """Return the groups that a policy may favour or delay: by urgency, and by the shortest and longest outputs."""
    requests = results[0].served.requests
    lengths = [request.num_output_tokens for request in requests]
    shortest, _, longest = quantiles(lengths, n=4, method="inclusive")
    everyone = frozenset(range(len(requests)))
    urgent = frozenset(i for i in everyone if requests[i].priority == URGENT)
    return {
        "urgent requests": urgent,
        "all the others": everyone - urgent,
        "shortest quarter": frozenset(i for i in everyone if lengths[i] <= shortest),
        "longest quarter": frozenset(i for i in everyone if lengths[i] >= longest),
    }
