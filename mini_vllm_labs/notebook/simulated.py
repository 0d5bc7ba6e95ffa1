"""Charts simulations: served workloads, policies, the widgets' settings, and the cost of drafts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mini_vllm_labs.notebook.charts import Charts, Measure, bar_charts, count, percent
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.measurements import Measurement
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.result_facts import ByUser, goodput_of
from mini_vllm_labs.pictures.bars import SHARE
from mini_vllm_labs.pictures.calculator.capacity import Capacity
from mini_vllm_labs.pictures.chunking_dial.trial import Trial
from mini_vllm_labs.pictures.policy_comparison import PolicyResult
from mini_vllm_labs.pictures.policy_comparison.comparison import COMPARED
from mini_vllm_labs.pictures.quantities import digits, memory, seconds
from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.cost_model import roofline
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.gpus import find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape
from mini_vllm_labs.simulation.served import Served, Slo
from mini_vllm_labs.simulation.simulation import simulate
from mini_vllm_labs.simulation.workloads import WORKLOADS, make_requests

SERVED: list[Measure[Served]] = [
    Measure("TTFT, median", lambda served: served.median_ttft, seconds),
    Measure("TTFT, p95", lambda served: served.time_to_first_token([95])[0], seconds),
    Measure("most at once", lambda served: served.most_running, count),
    Measure("preempted", lambda served: served.num_preemptions, count),
    Measure("tokens computed", lambda served: served.num_computed_tokens, count),
    Measure("prompt tokens hit", lambda served: served.hit_rate, percent, others=SHARE),
]
TRIAL: list[Measure[Trial]] = [
    Measure("ITL, p99", lambda trial: trial.inter_token_latencies[99.0], seconds),
    Measure("TTFT, p99", lambda trial: trial.times_to_first_token[99.0], seconds),
    Measure("output tokens per second", lambda trial: trial.served.output_tokens_per_second, count),
]
CAPACITY: list[Measure[Capacity]] = [
    Measure("requests that run", lambda capacity: capacity.batch_size, count),
    Measure("requests that fit", lambda capacity: capacity.concurrency, count),
    Measure("saturation batch", lambda capacity: capacity.saturation_batch, count),
    Measure("K and V of a token", lambda capacity: capacity.kv_bytes_per_token, memory),
]
SEATS: list[Measure[Measurement]] = [
    Measure("steps", lambda measured: measured.num_steps, count),
    Measure("time of a step", lambda measured: measured.seconds_per_step, seconds),
    Measure("tokens per second", lambda measured: measured.tokens_per_second, count),
]
NUM_SAMPLED = 2_000
GPU, MODEL = "H100", "Llama-3.1-8B"


def serve(lab: Lab, workload: str, rate: float, num_requests: int = 400, **settings: Any) -> Served | Notice:
    """Serve a workload at `rate` requests per second, with the given engine settings."""
    experiment = Experiment(workload, num_requests=num_requests, rate=rate)
    config = replace(experiment.resolved_engine(), **settings)
    return lab.run(simulate, make_requests(workload, num_requests, rate), config, experiment.cost)


def served_bars(served: Mapping[str, Served | Notice]) -> Charts | Notice:
    return bar_charts(served, SERVED)


def workload_bars() -> Charts | Notice:
    """Chart the lengths of each named workload, with its description."""
    half = NUM_SAMPLED // 2
    measures: list[Measure[list[TimedRequest]]] = [
        Measure("prompt tokens, median", lambda each: sorted(one.num_prompt_tokens for one in each)[half], count),
        Measure("prompt tokens, longest", lambda each: max(one.num_prompt_tokens for one in each), count),
        Measure("answer tokens, median", lambda each: sorted(one.num_output_tokens for one in each)[half], count),
    ]
    sampled = {str(name): make_requests(name, NUM_SAMPLED, rate=1.0) for name in WORKLOADS}
    return bar_charts(sampled, measures, [f"{name}: {what}." for name, what in WORKLOADS.items()])


def seat_bars(measured: Sequence[Measurement] | Notice, seats: Sequence[int]) -> Charts | Notice:
    """Chart the speed for each number of request slots, and state whether the texts are the same."""
    if isinstance(measured, Notice):
        return measured
    same = len({tuple(each.texts) for each in measured}) == 1
    by_name = dict(zip((counted(number, "seat") for number in seats), measured, strict=True))
    return bar_charts(by_name, SEATS, ["The same texts." if same else "DIFFERENT texts!"])


def trial_bars(trials: Mapping[str, Trial]) -> Charts | Notice:
    """Chart the latencies and output of each trial."""
    return bar_charts(trials, TRIAL)


def capacity_bars(capacities: Mapping[str, Capacity]) -> Charts | Notice:
    """Chart each setup's number of running requests, and the batch size above which arithmetic is the limit."""
    return bar_charts(capacities, CAPACITY)


def goodput_bars(contests: Mapping[str, list[PolicyResult] | Notice]) -> Charts | Notice:
    """Chart the goodput of each policy on one scale, and the tokens per second under FCFS."""
    known = [results for results in contests.values() if not isinstance(results, Notice)]
    all_of_them = [goodput_of(policy, results) for results in known for policy in COMPARED]
    measures: list[Measure[list[PolicyResult]]] = [
        *(
            Measure(f"{policy}: goodput per second", partial(goodput_of, policy), digits, all_of_them)
            for policy in COMPARED
        ),
        Measure("fcfs: output tokens per second", lambda all: all[0].served.output_tokens_per_second, count),
    ]
    return bar_charts(contests, measures)


def slo_bars(contests: Mapping[str, list[PolicyResult] | Notice], limits: Sequence[float]) -> Charts | Notice:
    """Chart the fraction of requests that meet the SLO under each policy, for several first-token limits in seconds."""

    def kept(policy: str, limit: float, results: Sequence[PolicyResult]) -> float:
        good = Slo(time_to_first_token=limit)
        return next(result.served.share_good(good) for result in results if result.policy == policy)

    measures: list[Measure[list[PolicyResult]]] = [
        Measure(f"{policy}: SLO of {limit:g} s kept", partial(kept, policy, limit), percent, others=SHARE)
        for limit in limits
        for policy in COMPARED
    ]
    return bar_charts(contests, measures)


def user_bars(served: Mapping[str, Served | Notice], users: Sequence[int]) -> Charts | Notice:
    """Chart the p95 of each user's time to first token on one scale, and the tokens per second."""

    def wait_of(user: int, each: Served) -> float:
        return ByUser(each, users).wait_of(user)

    known, shown = [each for each in served.values() if not isinstance(each, Notice)], sorted(set(users))
    all_of_them = [wait_of(user, each) for each in known for user in shown]
    measures: list[Measure[Served]] = [
        *(Measure(f"user {user}: TTFT, p95", partial(wait_of, user), seconds, all_of_them) for user in shown),
        Measure("output tokens per second", lambda each: each.output_tokens_per_second, count),
    ]
    return bar_charts(served, measures)


def step_ms(num_tokens: int) -> float:
    """Return how many ms a step of `num_tokens` takes: the longer of reading the weights and computing."""
    bound = roofline(find_gpu(GPU), find_model_shape(MODEL))
    return 1e3 * bound.step_seconds(num_tokens, num_tokens, 0, 0, num_tokens)


def draft_costs(batch_sizes: Sequence[int], num_drafts: int) -> Charts | Notice:
    """Chart each batch's step time with and without drafts, and the tokens per step needed to break even."""

    def with_drafts(size: int) -> float:
        return step_ms(size * (1 + num_drafts))

    measures: list[Measure[int]] = [
        Measure("step without drafts", step_ms, "{:.1f} ms".format),
        Measure(f"step with {num_drafts} drafts each", with_drafts, "{:.1f} ms".format),
        Measure("tokens per step to break even", lambda size: with_drafts(size) / step_ms(size), "{:.1f}".format),
    ]
    words = [f"{MODEL} on an {GPU}, by a roofline: attention and the drafter itself are left out."]
    return bar_charts({counted(size, "request"): size for size in batch_sizes}, measures, words)
