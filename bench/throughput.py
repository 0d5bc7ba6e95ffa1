"""Whole workloads against what a user would run instead, in turns, each contender in its own process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from bench.contender import Settings
from bench.peer_process import PeerProcess, why_missing
from bench.plan import ALL_AT_ONCE, NUM_SLOW, OURS, PROFILED, SHARED_PREFIX, SLOW, STREAM, Plan
from bench.results import Results
from course.workloads.timed_request import TimedRequest

LOAD = 0.8
"""The stream's rate, as a share of the requests per second that our engine managed all at once."""
Say = Callable[[str, str, int, int], None]
"""Hears the workload, the contender, how many requests it serves, and how many of them are done."""


def run_throughput(plan: Plan, say: Say = lambda workload, name, count, done: None) -> Results:
    """Start everybody, then take turns with the rounds of each workload. Raises `PeerError` if our engine breaks."""
    contest = Contest(plan.settings(), say)
    try:
        for name in plan.contenders:
            contest.start(name, plan.warm_up())
        contest.run(ALL_AT_ONCE, plan.all_at_once())
        rate = LOAD * plan.num_requests / contest.results.entries[ALL_AT_ONCE][OURS].served.seconds
        contest.run(STREAM, plan.stream(rate))
        contest.run(SHARED_PREFIX, plan.shared_prefix())
    finally:
        contest.close()
    return contest.results


def seconds_by_operator(plan: Plan) -> dict[str, float]:
    """Return what a round of ours is made of: the second of two, once the first has warmed up."""
    warm_up, requests = plan.profiled()
    peer = PeerProcess(PROFILED, plan.settings())
    try:
        peer.serve(warm_up)
        return peer.serve(requests).seconds_by_operator
    finally:
        peer.close()


class Contest:
    """The contenders that still run, ours first, and what they have reached. A peer that breaks off is missing."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self.settings, self.say = settings, say
        self.results = Results()
        self.peers: dict[str, PeerProcess] = {}

    def start(self, name: str, warm_up: Sequence[TimedRequest]) -> None:
        """Start a contender and let it make its first calls, or note why it is missing."""
        self.say("loading", name, 1, 0)
        if (reason := why_missing(name)) is not None:
            self.results.missing[name] = reason
            return
        try:
            self.peers[name] = PeerProcess(name, replace(self.settings, num_served=NUM_SLOW if name == SLOW else None))
            self.peers[name].serve(warm_up)
        except RuntimeError as error:
            self.give_up(name, error)

    def run(self, workload: str, rounds: Sequence[list[TimedRequest]]) -> None:
        """Let everybody serve each round."""
        for requests in rounds:
            ours = None
            for name, peer in list(self.peers.items()):
                count = min(len(requests), peer.settings.num_served or len(requests))
                try:
                    served = peer.serve(requests, partial(self.say, workload, name, count))
                except RuntimeError as error:
                    self.give_up(name, error, f" ({workload})")
                    continue
                ours = ours or served
                self.results.keep(workload, name, requests, served, ours, peer.facts)

    def give_up(self, name: str, error: RuntimeError, when: str = "") -> None:
        """Go on without a contender, and note why. Raises `error` if it is ours: without it there are no ratios."""
        if name == OURS:
            raise error
        self.results.missing[name] = f"{error}{when}"
        if name in self.peers:
            self.peers.pop(name).close()

    def close(self) -> None:
        """End all processes."""
        for peer in self.peers.values():
            peer.close()
