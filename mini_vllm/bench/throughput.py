"""Whole workloads against what a user would run instead, in turns, each contender in its own process."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mini_vllm.bench.contender import Settings
from mini_vllm.bench.peer_process import PeerError, PeerProcess, why_missing
from mini_vllm.bench.requests import FULL, BenchRequest, Sizes, poisson_stream, room_needed, skewed_requests
from mini_vllm.bench.served import Served, num_equal, summary

OURS = "mini-vllm"
SLOW = "transformers-one-by-one"
NUM_SLOW = 8
LOAD = 0.8
"""The stream's rate, as a share of the requests per second that our engine managed all at once."""
Say = Callable[[str, str, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: who, on which model, with how many requests, how often."""

    model: Path
    vocab_size: int
    num_requests: int
    num_rounds: int
    num_threads: int
    contenders: Sequence[str]
    dtype: str = "float32"
    lineup: str = "solution"
    sizes: Sizes = FULL


@dataclass(slots=True)
class Entry:
    """One contender's best round of one workload, with what it was compared on."""

    requests: list[BenchRequest]
    served: Served
    all_seconds: list[float]
    facts: dict[str, Any]


@dataclass(slots=True)
class Results:
    """The best rounds by workload and contender, and the reasons of those that are missing."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)
    equal: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def run_throughput(plan: Plan, say: Say = lambda workload, name, done: None) -> Results:
    """Start everybody, warm up, then take turns. `say` hears the workload, the contender and its requests done."""
    results, peers = Results(), dict[str, PeerProcess]()
    requests = skewed_requests(plan.num_requests, plan.vocab_size, 0, plan.sizes)
    settings = Settings(
        str(plan.model),
        plan.dtype,
        plan.num_threads,
        room_needed(requests),
        max_num_seqs=plan.num_requests,
        lineup=plan.lineup,
    )
    try:
        for name in plan.contenders:
            start_peer(name, settings, requests, peers, results, say)
        rate = run_workload("all at once", plan, peers, results, say, None)
        run_workload("stream", plan, peers, results, say, LOAD * rate)
    finally:
        for peer in peers.values():
            peer.close()
    return results


def start_peer(
    name: str,
    settings: Settings,
    requests: Sequence[BenchRequest],
    peers: dict[str, PeerProcess],
    results: Results,
    say: Say,
) -> None:
    """Start a contender and let it serve a little, or note why it is missing."""
    say("loading", name, 0)
    if (reason := why_missing(name)) is not None:
        results.missing[name] = reason
        return
    try:
        peer = PeerProcess(name, replace(settings, num_served=NUM_SLOW) if name == SLOW else settings)
        peers[name] = peer
        peer.serve([replace(request, num_output_tokens=4) for request in requests[:4]])
    except PeerError as error:
        if name == OURS:
            raise
        results.missing[name] = str(error)
        if name in peers:
            peers.pop(name).close()


def run_workload(
    workload: str, plan: Plan, peers: dict[str, PeerProcess], results: Results, say: Say, rate: float | None
) -> float:
    """Run the rounds of a workload; return the requests per second of our best one."""
    best: dict[str, Entry] = {}
    equal: dict[str, tuple[int, int]] = {}
    for number in range(plan.num_rounds):
        requests = skewed_requests(plan.num_requests, plan.vocab_size, number + 100 * (rate is not None), plan.sizes)
        if rate is not None:
            requests = poisson_stream(requests, rate)
        ours: Served | None = None
        for name, peer in peers.items():
            served = peer.serve(requests, lambda done, name=name: say(workload, name, done))  # type: ignore[misc]
            ours = served if name == OURS else ours
            if ours is not None:
                same, both = num_equal(ours, served)
                before = equal.get(name, (0, 0))
                equal[name] = (before[0] + same, before[1] + both)
            keep_best(best, name, Entry(requests, served, [served.seconds], peer.facts))
    results.entries[workload], results.equal[workload] = best, equal
    return plan.num_requests / best[OURS].served.seconds


def keep_best(best: dict[str, Entry], name: str, entry: Entry) -> None:
    """Keep the quicker round; all seconds are remembered."""
    if name not in best:
        best[name] = entry
        return
    seconds = best[name].all_seconds + entry.all_seconds
    if entry.served.seconds < best[name].served.seconds:
        best[name] = entry
    best[name].all_seconds = seconds


def as_record(plan: Plan, results: Results) -> dict[str, Any]:
    """Return the results for programs."""
    return {
        "plan": {**asdict(plan), "model": plan.model.name, "contenders": list(plan.contenders)},
        "missing": results.missing,
        "workloads": {
            workload: {
                name: {
                    **summary(entry.requests, entry.served),
                    "all_seconds": entry.all_seconds,
                    "facts": entry.facts,
                    "ours_is_faster_by": ratio(entries, name),
                    "equal_requests": results.equal[workload].get(name),
                }
                for name, entry in entries.items()
            }
            for workload, entries in results.entries.items()
        },
    }


def ratio(entries: dict[str, Entry], name: str) -> float:
    """Return our output tokens per second divided by another contender's.

    In a workload of which it serves only some requests, by what it reached on those.
    """
    return entries[OURS].served.tokens_per_second / entries[name].served.tokens_per_second
