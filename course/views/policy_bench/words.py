"""A contest in words: who won what, who is starved, and every figure as text."""

from collections.abc import Callable
from typing import NamedTuple

from course.simulator.policies import POLICIES
from course.simulator.served import Slo
from course.views.figures import digits, seconds
from course.views.policy_bench.contest import BASELINE, P95, Contest, Outcome, groups, worst_off

NAMES = {"fcfs": "FCFS", "priority": "PRIORITY", "shortest-first": "shortest-first"}
STARVING = {
    "urgent requests": "the urgent requests",
    "all the others": "those who are not urgent",
    "shortest quarter": "the shortest answers",
    "longest quarter": "the longest answers",
}
STARVED = 1.1
"""Times as long as under FCFS from which a wait is worth a word."""


class Row(NamedTuple):
    """A figure of each policy, in the order of the outcomes, as a number and in words."""

    name: str
    values: list[float]
    texts: list[str]


def title(contest: Contest) -> str:
    """Return what the policies are tried on."""
    return f"Who goes first: {contest.workload!r} at {contest.load} % load"


def circumstances(contest: Contest, slo: Slo) -> list[str]:
    """Return the rest of the setting, and the objective, a line each."""
    return [
        f"{contest.num_requests} requests, {digits(contest.rate)} a second, {contest.num_gpu_blocks:,} blocks, "
        f"{contest.model} on {contest.gpu}, simulated time",
        f"SLO: first token within {seconds(slo.time_to_first_token)}, then {seconds(slo.inter_token_latency)} from "
        f"token to token on average",
    ]


def engine(outcomes: list[Outcome]) -> str:
    """Return whose code served the requests."""
    return f"engine: {outcomes[0].lineup}"


def rows(outcomes: list[Outcome], slo: Slo) -> list[Row]:
    """Return the figures of all requests together."""
    return [
        row("p50 first token", outcomes, lambda o: o.time_to_first_token(50), seconds),
        row("p95 first token", outcomes, lambda o: o.time_to_first_token(P95), seconds),
        row("p99 first token", outcomes, lambda o: o.time_to_first_token(99), seconds),
        row("p50 inter-token", outcomes, lambda o: o.inter_token_latency(50), seconds),
        row("p99 inter-token", outcomes, lambda o: o.inter_token_latency(99), seconds),
        row("preemptions", outcomes, lambda o: o.num_preemptions, lambda value: f"{value:,.0f}"),
        row("kept the SLO", outcomes, lambda o: o.served.share_good(slo), lambda value: f"{100 * value:.0f} %"),
        row("goodput per second", outcomes, lambda o: o.served.goodput(slo), digits),
    ]


def group_rows(outcomes: list[Outcome]) -> list[Row]:
    """Return the p95 time to first token of each group."""
    return [group_row(name, members, outcomes) for name, members in groups(outcomes).items()]


def group_row(name: str, members: frozenset[int], outcomes: list[Outcome]) -> Row:
    """Return the p95 time to first token of one group."""
    return row(name, outcomes, lambda outcome: outcome.time_to_first_token(P95, members), seconds)


def row(name: str, outcomes: list[Outcome], value: Callable[[Outcome], float], text: Callable[[float], str]) -> Row:
    """Return one figure of each outcome."""
    values = [value(outcome) for outcome in outcomes]
    return Row(name, values, [text(value) for value in values])


def starved(outcomes: list[Outcome]) -> dict[str, str]:
    """Return for each policy the group that pays most, if it waits `STARVED` times as long as under FCFS."""
    members = groups(outcomes)
    worst = {outcome.policy: worst_off(outcome, fcfs(outcomes), members) for outcome in outcomes}
    return {policy: name for policy, (name, growth) in worst.items() if growth >= STARVED}


def fcfs(outcomes: list[Outcome]) -> Outcome:
    """Return the outcome that the others are held to."""
    return next(outcome for outcome in outcomes if outcome.policy == BASELINE)


def sentence(outcomes: list[Outcome], slo: Slo) -> str:
    """Return the goodput of each policy, and who pays for it."""
    goodputs = [f"{digits(outcome.served.goodput(slo))} with {NAMES[outcome.policy]}" for outcome in outcomes]
    members, victims = groups(outcomes), starved(outcomes)
    paying = [
        price(outcome, fcfs(outcomes), victims[outcome.policy], members)
        for outcome in outcomes
        if outcome.policy in victims
    ]
    said = f"Requests per second that keep the SLO: {', '.join(goodputs)}."
    return " ".join([said, *(paying or ["Nobody waits much longer than with FCFS."])])


def price(outcome: Outcome, baseline: Outcome, name: str, members: dict[str, frozenset[int]]) -> str:
    """Return what the starved group pays under a policy."""
    now, before = (seconds(one.time_to_first_token(P95, members[name])) for one in (outcome, baseline))
    return f"With {NAMES[outcome.policy]} {STARVING[name]} starve: p95 of {now} to the first token, {before} with FCFS."


def twin(contest: Contest, outcomes: list[Outcome], slo: Slo) -> str:
    """Return every figure of the picture as text."""
    lines = [
        title(contest),
        *circumstances(contest, slo),
        f"error of predictions: {contest.prediction_sigma:.2f}",
        engine(outcomes),
        "",
    ]
    lines += [f"{NAMES[outcome.policy]}: {POLICIES[outcome.policy]}" for outcome in outcomes]
    columns = [NAMES[outcome.policy] for outcome in outcomes]
    for heading, table in (("all requests", rows(outcomes, slo)), ("p95 first token of", group_rows(outcomes))):
        lines += ["", heading]
        for line in table:
            cells = ", ".join(f"{column} {text}" for column, text in zip(columns, line.texts, strict=True))
            lines.append(f"  {line.name}: {cells}")
    return "\n".join([*lines, "", sentence(outcomes, slo)])
