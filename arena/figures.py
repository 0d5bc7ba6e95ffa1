"""One run as figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from arena.accounts import Accounts
from course.simulator.served import Served
from course.simulator.summary import Spread
from course.workloads.timed_request import TimedRequest

READING_TTFT, READING_TPOT = 1.0, 0.1  # expected by a reader where a class promises nothing: Andes, arXiv 2404.16283


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """Goodput of one class: requests and output tokens per second of those requests that kept every promise."""

    share_good: float
    requests_per_second: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Figures:
    """A policy's run. Times are in seconds, service in weighted tokens, `qoe` is the mean from 0 to 1."""

    classes: dict[str, ClassFigures]
    ttft: Spread
    tpot: Spread
    e2e: Spread
    share_good: float
    tokens_per_second: float
    jain_index: float
    max_service_difference: float
    qoe: float
    num_preemptions: int
    num_recomputed_tokens: int
    hit_rate: float
    longest_wait: float


def figures_of(served: Served, accounts: Accounts) -> Figures:
    """Return the figures of a finished run."""
    ttft, tpot, e2e = served.times_to_first_token, served.mean_inter_token_latencies, served.e2e_latencies
    good = kept_promises(served)
    qualities = [
        quality_of_experience(request, accounts.token_times[str(number)])
        for number, request in enumerate(served.requests)
    ]
    return Figures(
        classes=class_figures(served),
        ttft=Spread.of([(seconds, 1) for seconds in ttft]),
        tpot=Spread.of([(seconds, 1) for seconds in tpot]),
        e2e=Spread.of([(seconds, 1) for seconds in e2e]),
        share_good=sum(good) / len(good),
        tokens_per_second=served.output_tokens_per_second,
        jain_index=accounts.jain_index(),
        max_service_difference=accounts.max_service_difference,
        qoe=sum(qualities) / len(qualities),
        num_preemptions=served.num_preemptions,
        num_recomputed_tokens=accounts.num_recomputed_tokens,
        hit_rate=served.hit_rate,
        longest_wait=max(ttft),
    )


def kept_promises(served: Served) -> list[bool]:
    """Return of each request whether it kept every promise of its class."""
    times = zip(served.times_to_first_token, served.mean_inter_token_latencies, served.e2e_latencies, strict=True)
    levels = (request.service_level for request in served.requests)
    return [
        first <= level.ttft and between <= level.tpot and whole <= level.e2e
        for (first, between, whole), level in zip(times, levels, strict=True)
    ]


def class_figures(served: Served) -> dict[str, ClassFigures]:
    """Return the figures of each class by its name, in alphabetical order."""
    by_class: dict[str, list[tuple[TimedRequest, bool]]] = {}
    for request, kept in zip(served.requests, kept_promises(served), strict=True):
        by_class.setdefault(request.service_level.name, []).append((request, kept))
    found = {}
    for name, members in sorted(by_class.items()):
        good = [request.num_output_tokens for request, kept in members if kept]
        found[name] = ClassFigures(len(good) / len(members), len(good) / served.seconds, sum(good) / served.seconds)
    return found


def quality_of_experience(request: TimedRequest, token_times: Sequence[float]) -> float:
    """Return how close a reader came to the expected text flow, 1 if no token was late. (Andes, arXiv 2404.16283.)

    The reader takes in a token when it has come and the one before has been read. Both curves of tokens over time, the
    expected one and the reader's, are measured by their areas up to the moment at which both are complete.
    """
    level = request.service_level
    first = next((limit for limit in (level.ttft, level.e2e) if limit < math.inf), READING_TTFT)
    pace = level.tpot if level.tpot < math.inf else READING_TPOT
    expected = [request.arrival_time + first + number * pace for number in range(len(token_times))]
    read: list[float] = []
    for due, time in zip(expected, token_times, strict=True):
        read.append(max(time, due) if not read else max(time, due, read[-1] + pace))
    end = max(read[-1], expected[-1]) + pace
    return sum(end - time for time in read) / sum(end - time for time in expected)
