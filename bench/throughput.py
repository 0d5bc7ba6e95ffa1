"""Whole workloads on mini-vLLM and on other backends, in turns, each in its own process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from bench.backend import Settings
from bench.peer_process import PeerProcess, why_missing
from bench.plan import ALL_AT_ONCE, NUM_SLOW, OURS, PROFILED, SHARED_PREFIX, SLOW, STREAM, Plan
from bench.results import Results
from course.workloads.timed_request import TimedRequest

LOAD = 0.8
"""The stream's rate, as a share of mini-vLLM's requests per second with all requests at once."""
OnProgress = Callable[[str, str, int, int], None]
"""Receives the workload, the backend, its number of requests, and how many of them are finished."""


def run_throughput(plan: Plan, on_progress: OnProgress = lambda workload, name, count, done: None) -> Results:
    """Start all backends, then serve each workload in turns. Raises `PeerError` if mini-vLLM fails."""
    run = ThroughputRun(plan.settings(), on_progress)
    try:
        for name in plan.backends:
            run.start(name, plan.warm_up())
        run.run(ALL_AT_ONCE, plan.all_at_once())
        rate = LOAD * plan.num_requests / run.results.entries[ALL_AT_ONCE][OURS].served.seconds
        run.run(STREAM, plan.stream(rate))
        run.run(SHARED_PREFIX, plan.shared_prefix())
    finally:
        run.close()
    return run.results


def seconds_by_operator(plan: Plan) -> dict[str, float]:
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

    def __init__(self, settings: Settings, on_progress: OnProgress) -> None:
        self.settings, self.on_progress = settings, on_progress
        self.results = Results()
        self.peers: dict[str, PeerProcess] = {}

    def start(self, name: str, warm_up: Sequence[TimedRequest]) -> None:
        """Start a backend and warm it up, or record why it is missing."""
        self.on_progress("loading", name, 1, 0)
        if (reason := why_missing(name)) is not None:
            self.results.missing[name] = reason
            return
        try:
            self.peers[name] = PeerProcess(name, replace(self.settings, num_served=NUM_SLOW if name == SLOW else None))
            self.peers[name].serve(warm_up)
        except RuntimeError as error:
            self.drop(name, error)

    def run(self, workload: str, rounds: Sequence[list[TimedRequest]]) -> None:
        """Serve each round on every backend."""
        for requests in rounds:
            ours = None
            for name, peer in list(self.peers.items()):
                count = min(len(requests), peer.settings.num_served or len(requests))
                try:
                    served = peer.serve(requests, partial(self.on_progress, workload, name, count))
                except RuntimeError as error:
                    self.drop(name, error, f" ({workload})")
                    continue
                ours = ours or served
                self.results.keep(workload, name, requests, served, ours, peer.facts)

    def drop(self, name: str, error: RuntimeError, when: str = "") -> None:
        """Continue without a backend and record why. Raises `error` for mini-vLLM: all ratios need it."""
        if name == OURS:
            raise error
        self.results.missing[name] = f"{error}{when}"
        if name in self.peers:
            self.peers.pop(name).close()

    def close(self) -> None:
        """End all processes."""
        for peer in self.peers.values():
            peer.close()
