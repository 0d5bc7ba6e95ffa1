"""The same requests under each policy, served by the lineup's engine in simulated time."""

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import quantiles

from course.simulator.experiment import NUM_SAMPLED_REQUESTS, Experiment, sustainable_rate
from course.simulator.policies import POLICIES, PREDICTION_SIGMA, URGENT, PolicyName, under_policy
from course.simulator.served import Served
from course.simulator.simulation import simulate
from course.simulator.workloads import make_requests
from course.workloads.percentiles import percentiles
from mini_vllm.assembly.lineup import Lineup

P95 = 95


@dataclass(frozen=True)
class PolicyComparison:
    """The workload and the deployment. `load` is in percent of what the GPU sustains with so many blocks.

    `prediction_sigma` is the error of shortest-first's predicted output lengths (see `under_policy`).
    """

    workload: str = "shared-prefix"
    load: int = 150
    num_gpu_blocks: int = 800
    prediction_sigma: float = PREDICTION_SIGMA
    num_requests: int = 300
    gpu: str = "H100"
    model: str = "Llama-3.1-8B"

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
    """How one policy served the requests, and the lineup of the engine."""

    policy: PolicyName
    served: Served
    lineup: Lineup

    @cached_property
    def times_to_first_token(self) -> list[float]:
        """Seconds from each request's arrival to its first token."""
        return self.served.times_to_first_token

    @cached_property
    def _known(self) -> dict[tuple[str, float, frozenset[int] | None], float]:
        """The percentiles computed so far: an SLO that is dragged asks for the same ones again and again."""
        return {}

    def time_to_first_token(self, percent: float, group: frozenset[int] | None = None) -> float:
        """Return a percentile in seconds, over all requests or over a group of their indices."""
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
    """Serve the same requests under each policy. Raises `ValueError` and `StalledError` as `simulate`."""
    requests = make_requests(comparison.workload, comparison.num_requests, comparison.rate)
    config, cost = comparison.experiment.resolved_engine(), comparison.experiment.cost
    results = []
    for policy in POLICIES:
        ordered, adapted = under_policy(policy, requests, config, prediction_sigma=comparison.prediction_sigma)
        results.append(PolicyResult(policy, simulate(ordered, adapted, cost, lineup), lineup))
    return results


def groups(results: list[PolicyResult]) -> dict[str, frozenset[int]]:
    """Return the requests that a policy may favour or delay: by urgency, and at both ends of the output lengths."""
    requests = next(result for result in results if result.policy == "priority").served.requests
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
