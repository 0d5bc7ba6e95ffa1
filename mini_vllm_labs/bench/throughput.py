"""Serves whole workloads on mini-vLLM and other backends in turn, each in its own process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

from mini_vllm_labs.bench.backend import ServedRound
from mini_vllm_labs.bench.case import Case, Measured, in_turns
from mini_vllm_labs.bench.peer_process import PeerProcess, why_missing
from mini_vllm_labs.bench.plan import NUM_SLOW, OURS, PROFILED, SLOW, STREAM, WORKLOADS, ThroughputPlan, Workload
from mini_vllm_labs.bench.served_latencies import figures_of
from mini_vllm_labs.pictures.terminal.progress import ProgressReport, unreported

LOAD = 0.5  # fraction of the request rate that mini-vLLM reaches when all requests arrive at once
STREAM_RATE = 0.98
"""No backend can serve a stream faster than it arrives: tokens/s within 2% count as equal, and latencies decide."""
RATE, BETWEEN = "tokens/s", "between tokens"
MEDIANS = ("first token", BETWEEN, "per token")


def throughput_cases(
    plan: ThroughputPlan,
    facts: dict[str, Any],
    report: ProgressReport = unreported,
    explain: Callable[[str, ServedRound], list[str]] = lambda title, served: [],
) -> Iterator[Case]:
    """Start all backends, and yield a case for each workload. Raises `PeerError` if mini-vLLM fails.

    The facts that all cases share are added to `facts`. `explain` returns notes about our fastest round.
    """
    settings = plan.settings()
    facts |= {"max_num_batched_tokens": settings.max_num_batched_tokens, "kv_cache_tokens": settings.kv_cache_tokens}
    facts |= {"plan": {**asdict(plan), "model": plan.model.name}, "load_of_stream": LOAD}
    with closing(Backends(plan, report)) as backends:
        facts |= {"missing": backends.missing, "versions": backends.versions}
        for workload in plan.workloads(lambda: LOAD * plan.num_requests / backends.ours[0].seconds):
            case = backends.case(workload)
            case.notes += explain(workload.title, min(backends.ours, key=lambda served: served.seconds))
            yield case
    facts["seconds_by_operator"] = seconds_by_operator(plan)


class Backends:
    """The running backends, mini-vLLM first. A backend that fails is removed, and `missing` records the reason.

    `ours` contains mini-vLLM's rounds from the last workload.
    """

    def __init__(self, plan: ThroughputPlan, report: ProgressReport) -> None:
        self.report = report
        self.peers: dict[str, PeerProcess] = {}
        self.missing: dict[str, str] = {}
        self.ours: list[ServedRound] = []
        try:
            for name in plan.backends:
                report(f"loading: {name}")
                self.start(name, plan)
        except BaseException:
            self.close()
            raise
        self.versions = {name: peer.facts["version"] for name, peer in self.peers.items() if "version" in peer.facts}

    def start(self, name: str, plan: ThroughputPlan) -> None:
        """Start a backend and warm it up, or record why it is missing."""
        if (reason := why_missing(name)) is not None:
            self.missing[name] = reason
            return
        try:
            num_served = NUM_SLOW if name == SLOW else None
            self.peers[name] = PeerProcess(name, replace(plan.settings(), num_served=num_served))
            self.peers[name].serve(plan.warm_up())
        except RuntimeError as error:
            self.drop(name, error)

    def case(self, workload: Workload) -> Case:
        """Serve each round of a workload on every backend."""
        self.ours = []
        runs = {name: partial(self.serve, name, workload) for name in self.peers}
        rounds = in_turns(
            runs,
            len(workload.rounds),
            report=self.report,
            title=workload.title,
            drop=lambda name, error: self.drop(name, error, f" ({workload.title})"),
        )
        return Case.of(workload.title, "tokens/s", OURS, rounds, notes=[workload.note], base_over_side=True)

    def serve(self, name: str, workload: Workload, number: int) -> Measured:
        requests, text = workload.rounds[number], f"{workload.title}, {name}: round {number + 1}"
        count = min(len(requests), self.peers[name].settings.num_served or len(requests))
        served = self.peers[name].serve(requests, lambda done: self.report(text, done, count), workload.load)
        if name == OURS:
            self.ours.append(served)
        # Above temperature 0, every backend draws different tokens.
        token_ids = None if workload.load.temperature else served.token_ids
        return Measured(served.tokens_per_second, figures_of(requests, served), token_ids)

    def drop(self, name: str, error: RuntimeError, when: str = "") -> None:
        """Continue without a backend, and record why. Raises `error` if mini-vLLM is the backend that failed, because
        every ratio needs its result."""
        if name == OURS:
            raise error
        self.missing[name] = f"{error}{when}"
        if name in self.peers:
            self.peers.pop(name).close()

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()


def seconds_by_operator(plan: ThroughputPlan) -> dict[str, float]:
    """Measure the time (in seconds) that each of mini-vLLM's operators takes in one round, after a warm-up round."""
    warm_up, requests = plan.profiled()
    with closing(PeerProcess(PROFILED, plan.settings())) as peer:
        peer.serve(warm_up)
        return peer.serve(requests).seconds_by_operator


class Versus(NamedTuple):
    """One comparison: `times` is our engine's speed relative to the peer's; below `aim`, our engine counts as
    slower."""

    words: str
    times: float
    aim: float

    @property
    def slower(self) -> bool:
        return self.times < self.aim


def versus(case: Case, peer: str) -> list[Versus]:
    """Compare our engine with a peer by tokens/s and by median latencies: three for a stream, one for a batch.

    When all requests arrive at once, backends compute batches of different sizes, so latencies mean little.
    """
    in_stream = case.title.startswith(STREAM)
    latencies = MEDIANS if in_stream else () if case.title in WORKLOADS else (BETWEEN,)
    ours, theirs = (median_latencies(case, name) for name in (OURS, peer))
    rate = Versus(RATE, case.ratio(peer), STREAM_RATE if in_stream else 1.0)
    return [rate, *(Versus(words, theirs[words] / ours[words], 1.0) for words in latencies)]


def median_latencies(case: Case, name: str) -> Mapping[str, float]:
    figures = case.sides[name].figures
    return {words: figures[f"{words} p50"].value for words in MEDIANS if f"{words} p50" in figures}
