"""Charts of what policies do to requests and to users."""

from collections.abc import Mapping, Sequence
from functools import partial

from course.notebook.charts import Charts, Measure, bar_charts, count, percent
from course.notebook.notice import Notice
from course.simulator.served import Served, Slo
from course.views.figures import digits, seconds
from course.views.policy_comparison import PolicyResult
from course.views.policy_comparison.figures import NAMES
from course.workloads.percentiles import percentiles


def goodput_of(policy: str, results: Sequence[PolicyResult]) -> float:
    """Return the requests per second that keep the SLO under one of the policies."""
    return next(result.served.goodput(Slo()) for result in results if result.policy == policy)


def goodput_bars(contests: Mapping[str, list[PolicyResult] | Notice]) -> Charts | Notice:
    """Return the goodput of each policy on one scale, and the tokens per second under FCFS."""
    known = [results for results in contests.values() if not isinstance(results, Notice)]
    most = max((goodput_of(policy, results) for results in known for policy in NAMES), default=0)
    measures: list[Measure[list[PolicyResult]]] = [
        Measure(f"{name}: goodput per second", partial(goodput_of, policy), digits, most)
        for policy, name in NAMES.items()
    ]
    output: Measure[list[PolicyResult]] = Measure(
        "FCFS: output tokens per second", lambda results: results[0].served.output_tokens_per_second, count
    )
    return bar_charts(contests, [*measures, output])


def slo_bars(contests: Mapping[str, list[PolicyResult] | Notice], limits: Sequence[float]) -> Charts | Notice:
    """Return what share of the requests keeps the SLO under each policy, for some limits of the first token in s."""

    def kept(policy: str, limit: float, results: Sequence[PolicyResult]) -> float:
        good = Slo(time_to_first_token=limit)
        return next(result.served.share_good(good) for result in results if result.policy == policy)

    measures: list[Measure[list[PolicyResult]]] = [
        Measure(f"{name}: SLO of {limit:g} s kept", partial(kept, policy, limit), percent, most=1)
        for limit in limits
        for policy, name in NAMES.items()
    ]
    return bar_charts(contests, measures)


def wait_of(user: int, users: Sequence[int], served: Served, percent: float = 95) -> float:
    """Return a percentile of a user's times to first token, in seconds; `users` has the user of each request."""
    times = [time for time, owner in zip(served.times_to_first_token, users, strict=True) if owner == user]
    return percentiles(times, [percent])[0]


def user_bars(served: Mapping[str, Served | Notice], users: Sequence[int]) -> Charts | Notice:
    """Return the p95 of each user's time to first token on one scale, and the tokens per second."""
    known, shown = [each for each in served.values() if not isinstance(each, Notice)], sorted(set(users))
    most = max((wait_of(user, users, each) for each in known for user in shown), default=0)
    measures: list[Measure[Served]] = [
        Measure(f"user {user}: TTFT, p95", partial(wait_of, user, users), seconds, most) for user in shown
    ]
    output: Measure[Served] = Measure("output tokens per second", lambda each: each.output_tokens_per_second, count)
    return bar_charts(served, [*measures, output])
