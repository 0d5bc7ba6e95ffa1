"""The targets of the project, and whether a record meets them: rows of (aim, found, whether it is met)."""

from collections.abc import Mapping
from typing import Any

from bench.overlap import EMBEDDED, OVERLAPPED
from bench.peer_process import BACKENDS
from bench.plan import ALL_AT_ONCE, SHARED_PREFIX
from bench.sampling import GREEDY, WAYS, WIDE, SamplingCase
from bench.slower import figures_against
from bench.speculative import ADAPTIVE, COPYING, FIXED, WITHOUT

Record = Mapping[str, Any]
PEERS = BACKENDS[1:]
TIMES_FASTER = {
    ("random-150m", "float32"): {"transformers-continuous": 3.0, "transformers-static": 4.0, "openvino": 1.0},
    ("random-150m", "bfloat16"): {"openvino": 0.85},
    ("embedded", "float32"): {"transformers-continuous": 4.0, "transformers-static": 3.0, "openvino": 0.9},
}
"""All at once: our output tokens per second over theirs, by model and dtype."""
NEVER_SLOWER_THAN = ("transformers-continuous", "transformers-static")
MAX_OVERHEAD = 0.05
MIN_GAIN, MAX_LOSS, MAX_SHARE_BETWEEN = 1.5, 0.9, 0.08
MAX_SAMPLING, MAX_SAMPLING_WIDE = 0.1, 0.25
MAX_COST = {"decode": 0.25, "admission": 0.3}
NOT_MEASURED = ["", "not measured"]


def throughput(record: Record) -> list[list[str]]:
    rows, dtype = [], record["plan"]["dtype"]
    for peer, times in TIMES_FASTER.get((record["model"], dtype), {}).items():
        aim = f"all at once, at least {times:g} times the tokens/s of {peer}"
        rows.append([aim, *found(record, ALL_AT_ONCE, peer, times)])
    if record["model"] == "random-150m" and dtype == "float32":
        rows.append(overhead(record))
    rows += [[f"shared prefix, more tokens/s than {peer}", *found(record, SHARED_PREFIX, peer, 1.0)] for peer in PEERS]
    return rows


def found(record: Record, workload: str, peer: str, aim: float) -> list[str]:
    """Return how many times faster ours was, and whether that reaches the aim."""
    entries = record["workloads"][workload]
    if peer not in entries:
        return NOT_MEASURED
    times = entries[peer]["ours_is_faster_by"]
    return [f"{times:.2f}", verdict(times, aim)]


def verdict(times: float, aim: float) -> str:
    """Return whether a ratio reaches the aim, and if not by how much it is short of it."""
    return "met" if times >= aim else f"**missed by {short(times, aim)}**"


def short(times: float, aim: float) -> str:
    return f"{1 - times / aim:.1%}"


def overhead(record: Record) -> list[str]:
    """Return the row on what is not the forward pass in steps of many requests."""
    share = record["explained"][ALL_AT_ONCE]["overhead"]["share"]
    words = "met" if share < MAX_OVERHEAD else f"**missed by {100 * (share - MAX_OVERHEAD):.1f} points**"
    return [f"all at once, under {MAX_OVERHEAD:.0%} of large steps is not the forward pass", f"{share:.1%}", words]


def compare(workload: str, entries: Record, peer: str) -> str:
    """Return whether nothing that counts in a workload is slower in ours than in a peer, and the ratios."""
    if peer not in entries:
        return "not measured"
    checks = figures_against(workload, entries, peer)
    texts = [f"{one.words} {one.times:.2f}" + (f" (by {short(one.times, one.aim)})" * one.slower) for one in checks]
    return ("**missed:** " if any(one.slower for one in checks) else "met: ") + ", ".join(texts)


def drafts(record: Record) -> list[list[str]]:
    """Return the aims of `bench speculative`: much gained where drafts are right, and little lost anywhere."""
    rates = {
        (case["workload"], case["batch_size"]): {
            name: one["tokens_per_second"] / case["measured"][WITHOUT]["tokens_per_second"]
            for name, one in case["measured"].items()
        }
        for case in record["cases"]
    }
    gain = max(rates[COPYING, 1][name] for name in (FIXED, ADAPTIVE))
    worst = min(one[ADAPTIVE] for one in rates.values())
    return [
        [f"{COPYING}, batch 1: at least {MIN_GAIN:g} times", f"{gain:.2f}", verdict(gain, MIN_GAIN)],
        [f"{ADAPTIVE}, never under {MAX_LOSS:g} times", f"{worst:.2f}", verdict(worst, MAX_LOSS)],
    ]


def between_passes(record: Record) -> list[str]:
    """Return the aim of `bench async`: little time between two forward passes with a step in flight."""
    cases = [case for case in record["cases"] if case["model"] == EMBEDDED]
    shares = [case["timed"][OVERLAPPED]["share_between"] for case in cases]
    num_missed = sum(share >= MAX_SHARE_BETWEEN for share in shares)
    words = f"**missed at {num_missed} of {len(shares)} batch sizes**" if num_missed else "met"
    aim = f"embedded model: under {MAX_SHARE_BETWEEN:.0%} of the time is not the forward pass"
    return [aim, f"{min(shares):.0%} to {max(shares):.0%}", words]


def sampling(record: Record) -> list[list[str]]:
    """Return the aims of `bench sampling` at the largest batch: what a way may cost beside greedy text."""
    rows, largest = [], max(case["batch_size"] for case in record["cases"])
    for case in record["cases"]:
        if case["batch_size"] != largest:
            continue
        aim = MAX_SAMPLING_WIDE if case["model"] == WIDE else MAX_SAMPLING
        for way in (one for one in WAYS if one != GREEDY):
            cost = 1 - share_of_greedy(case, way)
            words = "met" if cost <= aim else f"**missed by {100 * (cost - aim):.1f} points**"
            rows.append([f"{case['model']}, batch {largest}, {way}: at most {aim:.0%}", f"{cost:.1%}", words])
    return rows


def share_of_greedy(case: Record, way: str) -> float:
    """Return a way's tokens per second as a share of greedy's."""
    return SamplingCase(**case).share_of_greedy(way)


def scheduling(record: Record) -> list[list[str]]:
    """Return the aims of `bench scheduler --peer vllm`: our cost as a share of vLLM's, the largest of its kind."""
    rows = []
    for kind, aim in MAX_COST.items():
        largest = max(one["ratio"] for one in record["compared"] if one["name"].startswith(kind))
        words = "met" if largest <= aim else f"**missed by {largest / aim - 1:.1%}**"
        rows.append([f"{kind}: at most {aim:.2f} of vLLM's CPU time", f"{largest:.2f}", words])
    return rows
