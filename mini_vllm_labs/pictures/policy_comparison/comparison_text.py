"""Computes the figures of a comparison, as numbers and as text."""

from collections.abc import Callable
from typing import NamedTuple

from mini_vllm_labs.pictures.policy_comparison.comparison import P95, PolicyComparison, PolicyResult, groups
from mini_vllm_labs.pictures.quantities import digits, seconds
from mini_vllm_labs.pictures.text import facts
from mini_vllm_labs.policies.named import POLICIES
from mini_vllm_labs.simulation.served import Slo

Figure = Callable[[PolicyResult], float]
STARVED = 1.1  # a group counts as starved if it waits this many times as long as under the first policy


class FigureRow(NamedTuple):
    """One figure for each policy, in the order of the results, as numbers and as text."""

    name: str
    policies: list[str]
    values: list[float]
    texts: list[str]
    more_is_better: bool = False

    @property
    def best(self) -> float:
        return max(self.values) if self.more_is_better else min(self.values)

    @property
    def text(self) -> str:
        return ", ".join(f"{name} {text}" for name, text in zip(self.policies, self.texts, strict=True))


def title(comparison: PolicyComparison) -> str:
    return f"Policies: {comparison.workload!r} at {comparison.load} % load"


def circumstances(comparison: PolicyComparison, slo: Slo) -> list[str]:
    return [
        f"{comparison.num_requests} requests, one in five urgent, {digits(comparison.rate)} per second, "
        f"{comparison.num_gpu_blocks:,} blocks, {comparison.model} on {comparison.gpu}, simulated time",
        f"SLO: first token within {seconds(slo.time_to_first_token)}, then {seconds(slo.inter_token_latency)} from "
        f"token to token on average",
    ]


def rows(results: list[PolicyResult], slo: Slo) -> list[FigureRow]:
    return [
        row("p50 first token", results, lambda result: result.time_to_first_token(50), seconds),
        row("p95 first token", results, lambda result: result.time_to_first_token(P95), seconds),
        row("p99 first token", results, lambda result: result.time_to_first_token(99), seconds),
        row("p50 inter-token", results, lambda result: result.inter_token_latency(50), seconds),
        row("p99 inter-token", results, lambda result: result.inter_token_latency(99), seconds),
        row("preemptions", results, lambda result: result.served.num_preemptions, "{:,.0f}".format),
        row("kept the SLO", results, lambda result: 100 * result.served.share_good(slo), "{:.0f} %".format, True),
        row("goodput per second", results, lambda result: result.served.goodput(slo), digits, True),
    ]


def group_rows(results: list[PolicyResult]) -> list[FigureRow]:
    """Return the p95 time to first token of each group."""
    times = {
        name: [result.time_to_first_token(P95, members) for result in results]
        for name, members in groups(results).items()
    }
    names = [result.policy for result in results]
    return [FigureRow(name, names, values, list(map(seconds, values))) for name, values in times.items()]


def row(
    name: str, results: list[PolicyResult], value: Figure, text: Callable[[float], str], more_is_better: bool = False
) -> FigureRow:
    values = [value(result) for result in results]
    names = [result.policy for result in results]
    return FigureRow(name, names, values, [text(value) for value in values], more_is_better)


def starved(results: list[PolicyResult]) -> dict[str, str]:
    """Return, for each policy, the group whose p95 time to first token grew most, if by at least `STARVED`.

    Growth is relative to the first policy; ties go to the smallest group.
    """
    members, baseline, victims = groups(results), results[0], dict[str, str]()
    for result in results:
        growth = {
            name: result.time_to_first_token(P95, group) / baseline.time_to_first_token(P95, group)
            for name, group in members.items()
            if group
        }
        worst = max(growth, key=lambda name: (growth[name], -len(members[name])))
        if growth[worst] >= STARVED:
            victims[result.policy] = worst
    return victims


def sentence(results: list[PolicyResult], slo: Slo) -> str:
    goodput = row("", results, lambda result: result.served.goodput(slo), digits).text
    members, victims = groups(results), starved(results)
    paid = []
    for result in results:
        if name := victims.get(result.policy):
            now, before = (seconds(one.time_to_first_token(P95, members[name])) for one in (result, results[0]))
            paid.append(f"{name} with {result.policy} {now} ({results[0].policy} {before})")
    return f"Requests per second within the SLO: {goodput}. Starved, p95 first token: {'; '.join(paid) or 'none'}."


def text_alternative(comparison: PolicyComparison, results: list[PolicyResult], slo: Slo) -> str:
    lines: list[tuple[str, object]] = [
        ("error of predicted lengths", f"{comparison.prediction_sigma:.2f}"),
        ("engine", results[0].lineup),
        *[(result.policy, POLICIES[result.policy].text) for result in results],
        *[(line.name, line.text) for line in rows(results, slo)],
        *[(f"p95 first token, {line.name}", line.text) for line in group_rows(results)],
    ]
    return "\n".join([title(comparison), *circumstances(comparison, slo), facts(lines), sentence(results, slo)])
