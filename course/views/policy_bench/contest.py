"""The same requests under each policy, by the lineup's engine in simulated time."""

from dataclasses import dataclass, replace
from statistics import quantiles

from course.simulator.experiment import NUM_SAMPLED_REQUESTS, Experiment, sustainable_rate
from course.simulator.policies import POLICIES, PREDICTION_SIGMA, URGENT, PolicyName, under_policy
from course.simulator.served import Served
from course.simulator.simulation import simulate
from course.simulator.workloads import make_requests
from course.workloads.percentiles import percentiles
from mini_vllm.seams.lineup import Lineup

BASELINE = "fcfs"
P95 = 95


@dataclass(frozen=True)
class Contest:
    """What is served. `load` is in percent of what the GPU bears with so many blocks.

    `prediction_sigma` is how wrong shortest-first is about the length of answers (see `under_policy`).
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
        """The GPU, the model and the engine's settings."""
        experiment = Experiment(self.workload, self.num_requests, gpu=self.gpu, model=self.model)
        return replace(experiment, engine=replace(experiment.engine, num_gpu_blocks=self.num_gpu_blocks))

    @property
    def rate(self) -> float:
        """Requests per second."""
        sample = make_requests(self.workload, NUM_SAMPLED_REQUESTS, 1.0)
        return self.load / 100 * sustainable_rate(sample, self.experiment.resolved_engine(), self.experiment.cost)


@dataclass(frozen=True)
class Outcome:
    """What a policy made of the requests, and whose engine served them."""

    policy: PolicyName
    served: Served
    lineup: Lineup

    @property
    def num_preemptions(self) -> int:
        return self.served.num_preemptions

    def time_to_first_token(self, percent: float, group: frozenset[int] | None = None) -> float:
        """Return a percentile in seconds, of all requests or of a group of them (0 is the first to come)."""
        times = self.served.times_to_first_token
        return percentiles(times if group is None else [times[i] for i in group], [percent])[0]

    def inter_token_latency(self, percent: float) -> float:
        """Return a percentile in seconds, of all tokens."""
        return self.served.inter_token_latency([percent])[0]


def hold_contest(contest: Contest, lineup: Lineup) -> list[Outcome]:
    """Serve the same requests under each policy. Raises `ValueError` and `StalledError` as `simulate`."""
    requests = make_requests(contest.workload, contest.num_requests, contest.rate)
    config, cost = contest.experiment.resolved_engine(), contest.experiment.cost
    outcomes = []
    for policy in POLICIES:
        ordered, heeding = under_policy(policy, requests, config, prediction_sigma=contest.prediction_sigma)
        outcomes.append(Outcome(policy, simulate(ordered, heeding, cost, lineup), lineup))
    return outcomes


def groups(outcomes: list[Outcome]) -> dict[str, frozenset[int]]:
    """Return the requests by what a policy may favour: urgent or not, and the two ends of answer lengths."""
    requests = next(outcome for outcome in outcomes if outcome.policy == "priority").served.requests
    lengths = [request.num_output_tokens for request in requests]
    shortest, _, longest = quantiles(lengths, n=4, method="inclusive")
    everybody = range(len(requests))
    urgent = frozenset(i for i in everybody if requests[i].priority == URGENT)
    return {
        "urgent requests": urgent,
        "all the others": frozenset(everybody) - urgent,
        "shortest quarter": frozenset(i for i in everybody if lengths[i] <= shortest),
        "longest quarter": frozenset(i for i in everybody if lengths[i] >= longest),
    }


def worst_off(outcome: Outcome, baseline: Outcome, members: dict[str, frozenset[int]]) -> tuple[str, float]:
    """Return the group whose p95 time to first token grew most against the baseline, and how many times it is that.

    Of groups that fare the same it is the smallest.
    """
    growth = {
        name: outcome.time_to_first_token(P95, group) / baseline.time_to_first_token(P95, group)
        for name, group in members.items()
        if group
    }
    worst = max(growth, key=lambda name: (growth[name], -len(members[name])))
    return worst, growth[worst]
