"""Whole workloads on mini-vLLM and on other backends, in turns, each in its own process; each one's fastest round."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from bench.backend import ALL_GREEDY, BackendSettings, Load, ServedRound, num_equal, summary
from bench.peer_process import PeerProcess, why_missing
from bench.plan import ALL_AT_ONCE, NUM_SLOW, OURS, PROFILED, SHARED_PREFIX, SLOW, STREAM, WORKLOADS, ThroughputPlan
from course.terminal.charts import duration
from course.terminal.progress import ProgressReport, unreported
from course.workloads.timed_request import TimedRequest

LOAD = 0.5  # of mini-vLLM's requests per second with all at once: a stream that it can keep up with


@dataclass(slots=True)
class Entry:
    """One backend's fastest round of one workload.

    `equal` is the number of requests in all rounds with the same tokens as mini-vLLM's, and the number compared: none
    above temperature 0, where every backend has draws of its own.
    """

    requests: list[TimedRequest]
    served: ServedRound
    all_seconds: list[float]
    facts: dict[str, Any]
    equal: tuple[int, int]


@dataclass(slots=True)
class Results:
    """The fastest rounds by workload and backend, and why other backends are missing."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def keep(
        self,
        workload: str,
        name: str,
        requests: list[TimedRequest],
        served: ServedRound,
        ours: ServedRound,
        facts: dict[str, Any],
        load: Load = ALL_GREEDY,
    ) -> None:
        """Keep a round if it is the backend's fastest; keep the seconds of all rounds."""
        entries = self.entries.setdefault(workload, {})
        equal, seconds = (0, 0) if load.temperature else num_equal(ours, served), [served.seconds]
        if (before := entries.get(name)) is not None:
            equal = (before.equal[0] + equal[0], before.equal[1] + equal[1])
            seconds = before.all_seconds + seconds
            if before.served.seconds <= served.seconds:
                requests, served = before.requests, before.served
        entries[name] = Entry(requests, served, seconds, facts, equal)


def run_throughput(plan: ThroughputPlan, report: ProgressReport = unreported) -> Results:
    """Start all backends, then serve each workload in turns. Raises `PeerError` if mini-vLLM fails."""
    # A part is the loading of a backend, or one of its rounds: all at once, as a stream and on the axes, then one of
    # questions.
    num_workloads = 2 + len(list(plan.axes(1.0)))
    run = ThroughputRun(plan.settings(), report, len(plan.backends) * (2 + num_workloads * plan.num_rounds))
    try:
        for name in plan.backends:
            run.start(name, plan.warm_up())
        run.run(ALL_AT_ONCE, plan.all_at_once())
        rate = LOAD * plan.num_requests / run.results.entries[ALL_AT_ONCE][OURS].served.seconds
        run.run(STREAM, plan.stream(rate))
        run.run(SHARED_PREFIX, plan.shared_prefix())
        for workload, rounds, load in plan.axes(rate):
            run.run(workload, rounds, load)
    finally:
        run.close()
    return run.results


def seconds_by_operator(plan: ThroughputPlan) -> dict[str, float]:
    """Return the seconds by operator of a round of mini-vLLM, after a warm-up round."""
    warm_up, requests = plan.profiled()
    peer = PeerProcess(PROFILED, plan.settings())
    try:
        peer.serve(warm_up)
        return peer.serve(requests).seconds_by_operator
    finally:
        peer.close()


class ThroughputRun:
    """The running backends, mini-vLLM first, and their results. A backend that fails is recorded as missing."""

    def __init__(self, settings: BackendSettings, report: ProgressReport, num_parts: int) -> None:
        self.settings, self._report = settings, report
        self._part, self._num_parts = 0, num_parts
        self.results = Results()
        self.peers: dict[str, PeerProcess] = {}

    def start(self, name: str, warm_up: Sequence[TimedRequest]) -> None:
        """Start a backend and warm it up, or record why it is missing."""
        self.begin_part("loading", name)
        if (reason := why_missing(name)) is not None:
            self.results.missing[name] = reason
            self._report(f"{name} is missing", found=f"{name} is missing: {reason}")
            return
        try:
            self.peers[name] = PeerProcess(name, replace(self.settings, num_served=NUM_SLOW if name == SLOW else None))
            self.peers[name].serve(warm_up)
        except RuntimeError as error:
            self.drop(name, error)

    def run(self, workload: str, rounds: Sequence[list[TimedRequest]], load: Load = ALL_GREEDY) -> None:
        """Serve each round on every backend."""
        for requests in rounds:
            ours = None
            for name, peer in list(self.peers.items()):
                count = min(len(requests), peer.settings.num_served or len(requests))
                text = self.begin_part(workload, name)
                try:
                    served = peer.serve(requests, partial(self._report_finished, text, count), load)
                except RuntimeError as error:
                    self.drop(name, error, f" ({workload})")
                    continue
                ours = ours or served  # mini-vLLM comes first
                self.results.keep(workload, name, requests, served, ours, peer.facts, load)
                rate = f"{served.tokens_per_second:,.0f} tokens/s"
                self._report(text, count, count, f"{workload}, {name}: {duration(served.seconds)}, {rate}")

    def begin_part(self, workload: str, name: str) -> str:
        """Count a part and report it; return its description."""
        self._part += 1
        text = f"part {self._part} of {self._num_parts}, {workload}: {name}"
        self._report(text)
        return text

    def _report_finished(self, text: str, count: int, num_finished: int) -> None:
        self._report(text, num_finished, count)

    def drop(self, name: str, error: RuntimeError, when: str = "") -> None:
        """Continue without a backend and record why. Raises `error` for mini-vLLM: all ratios need it."""
        if name == OURS:
            raise error
        self.results.missing[name] = f"{error}{when}"
        self._report(f"{name} is missing", found=f"{name} is missing: {error}{when}")
        if name in self.peers:
            self.peers.pop(name).close()

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()


def as_record(plan: ThroughputPlan, results: Results) -> dict[str, Any]:
    """Return the results as a JSON object."""
    settings = plan.settings()
    workloads = {
        workload: {
            name: {
                **summary(entry.requests, entry.served),
                "all_seconds": entry.all_seconds,
                "facts": entry.facts,
                "ours_is_faster_by": ratio(entries, name),
                "equal_requests": entry.equal,
            }
            for name, entry in entries.items()
        }
        for workload, entries in results.entries.items()
    }
    return {
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "kv_cache_tokens": settings.kv_cache_tokens,
        "plan": {**asdict(plan), "model": plan.model.name, "backends": list(plan.backends)},
        "load_of_stream": LOAD,
        "missing": results.missing,
        "workloads": {name: workloads[name] for name in WORKLOADS},
        "axes": {name: entries for name, entries in workloads.items() if name not in WORKLOADS},
    }


def ratio(entries: dict[str, Entry], name: str) -> float:
    """Return mini-vLLM's output tokens per second divided by another backend's.

    For a backend that serves only some requests, its rate on those counts.
    """
    return entries[OURS].served.tokens_per_second / entries[name].served.tokens_per_second
