"""The project's targets, and whether a record meets them, as rows of (aim, finding, whether it is met)."""

import re
from collections.abc import Mapping
from typing import Any

from mini_vllm_labs.bench.busy import best_of_fixed
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.engine_benchmarks import ADAPTIVE, AT_A_TEMPERATURE, BETWEEN, FIXED, OVERLAPPED
from mini_vllm_labs.bench.engine_cases import EMBEDDED, WIDE
from mini_vllm_labs.bench.peer_process import BACKENDS
from mini_vllm_labs.bench.plan import ALL_AT_ONCE, SHARED_PREFIX
from mini_vllm_labs.bench.speculative import COPYING
from mini_vllm_labs.bench.throughput import versus

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
MIN_OF_BEST = 0.9
NOT_MEASURED = ["", "not measured"]


def cases_of(record: Record) -> list[Case]:
    return [Case.read(one) for one in record["cases"]]


def throughput(record: Record) -> list[list[str]]:
    """Return the aims of `bench throughput`: the speed relative to peers, and the time spent outside the forward
    pass."""
    cases = {case.title: case for case in cases_of(record)}
    rows, dtype = [], record["plan"]["dtype"]
    for peer, times in TIMES_FASTER.get((record["model"], dtype), {}).items():
        least = "at least as many tokens/s as" if times == 1 else f"at least {times:g} times the tokens/s of"
        aim = f"all at once: {least} {peer}"
        rows.append([aim, *found(cases[ALL_AT_ONCE], peer, times)])
    if record["model"] == "random-150m" and dtype == "float32":
        share = record["explained"][ALL_AT_ONCE]["overhead"]
        words = "met" if share < MAX_OVERHEAD else f"**missed by {100 * (share - MAX_OVERHEAD):.1f} points**"
        aim = f"all at once: large steps spend less than {MAX_OVERHEAD:.0%} of their time outside the forward pass"
        rows.append([aim, f"{share:.1%}", words])
    for peer in PEERS:
        rows.append([f"shared prefix: more tokens/s than {peer}", *found(cases[SHARED_PREFIX], peer, 1.0)])
    return rows


def found(case: Case, peer: str, aim: float) -> list[str]:
    """Return how many times faster our engine was, and whether that meets the aim."""
    return [f"{case.ratio(peer):.2f}", verdict(case.ratio(peer), aim)] if peer in case.sides else NOT_MEASURED


def verdict(times: float, aim: float) -> str:
    """Return whether a ratio meets the aim and, if it does not, by how much it misses."""
    return "met" if times >= aim else f"**missed by {short(times, aim)}**"


def short(times: float, aim: float) -> str:
    return f"{1 - times / aim:.1%}"


def compare(case: Case, peer: str) -> str:
    """Return whether our engine is never slower than a peer in the figures that count, together with the ratios."""
    if peer not in case.sides:
        return "not measured"
    checks = versus(case, peer)
    texts = [f"{one.words} {one.times:.2f}" + (f" (by {short(one.times, one.aim)})" * one.slower) for one in checks]
    return ("**missed:** " if any(one.slower for one in checks) else "met: ") + ", ".join(texts)


def batch_size(case: Case) -> int:
    found = re.search(r"batch (\d+)", case.title)
    return int(found[1]) if found else 0


def beside_busy_processes(record: Record) -> list[list[str]]:
    """Return the aim of `bench busy`: nearly as fast as the best fixed number of threads in every case."""
    shares = [1 / case.ratio(best_of_fixed(case)) for case in cases_of(record)]
    num_missed = sum(share < MIN_OF_BEST for share in shares)
    words = f"**missed in {num_missed} of {len(shares)} cases**" if num_missed else "met"
    aim = f"default: at least {MIN_OF_BEST:g} times as fast as the best fixed choice"
    return [[aim, f"{min(shares):.2f} to {max(shares):.2f}", words]]


def drafts(record: Record) -> list[list[str]]:
    """Return the aims of `bench speculative`: large gains where drafts are right, and small losses everywhere else."""
    cases = cases_of(record)
    [alone] = [case for case in cases if COPYING in case.title and batch_size(case) == 1]
    gain = max(alone.ratio(name) for name in (FIXED, ADAPTIVE))
    worst = min(case.ratio(ADAPTIVE) for case in cases)
    gain_aim, loss_aim = (f"{times:g} times as fast as without drafts" for times in (MIN_GAIN, MAX_LOSS))
    return [
        [f"each chat {COPYING}, batch 1: at least {gain_aim}", f"{gain:.2f}", verdict(gain, MIN_GAIN)],
        [f"{ADAPTIVE}: always at least {loss_aim}", f"{worst:.2f}", verdict(worst, MAX_LOSS)],
    ]


def between_passes(record: Record) -> list[list[str]]:
    """Return the aim of `bench async`: with a step in flight, little time between two forward passes."""
    cases = [case for case in cases_of(record) if EMBEDDED in case.title]
    shares = [case.sides[OVERLAPPED].figures[BETWEEN].value for case in cases]
    num_missed = sum(share >= MAX_SHARE_BETWEEN for share in shares)
    words = f"**missed at {num_missed} of {len(shares)} batch sizes**" if num_missed else "met"
    aim = f"embedded model: less than {MAX_SHARE_BETWEEN:.0%} of the time is spent outside the forward pass"
    return [[aim, f"{min(shares):.0%} to {max(shares):.0%}", words]]


def sampling(record: Record) -> list[list[str]]:
    """Return the aims of `bench sampling` at the largest batch: how much slower than greedy each case may be."""
    cases = cases_of(record)
    rows, largest = [], max(map(batch_size, cases))
    for case in cases:
        aim = MAX_SAMPLING_WIDE if WIDE in case.title else MAX_SAMPLING
        for way in (one for one in case.sides if one in AT_A_TEMPERATURE and batch_size(case) == largest):
            cost = 1 - case.ratio(way)
            words = "met" if cost <= aim else f"**missed by {100 * (cost - aim):.1f} points**"
            rows.append([f"{case.title}, {way}: at most {aim:.0%} slower than greedy", f"{cost:.1%}", words])
    return rows


def scheduling(record: Record) -> list[list[str]]:
    """Return the aims of `bench scheduler --peer vllm`: each kind's largest cost as a share of vLLM's."""
    rows = []
    for kind, aim in MAX_COST.items():
        largest = max(case.ratio("mini-vLLM") for case in cases_of(record) if case.title.startswith(kind))
        words = "met" if largest <= aim else f"**missed by {largest / aim - 1:.1%}**"
        rows.append([f"{kind}: at most {aim:.2f} times vLLM's CPU time", f"{largest:.2f}", words])
    return rows
