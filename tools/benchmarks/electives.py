"""The sections of the page on the two elective phases: drafts, and a step in flight."""

from bench.overlap import EMBEDDED, IN_TURN, OVERLAPPED
from bench.speculative import ADAPTIVE, ASSISTED_PEER, COPYING, FIXED, LOOKUP_PEER, MODEL, PLAIN_PEER, WITHOUT
from tools.benchmarks.aims import verdict
from tools.benchmarks.table import Record, table

MIN_GAIN, MAX_LOSS, MAX_SHARE_BETWEEN = 1.5, 0.9, 0.08


def speculative(record: Record) -> str:
    """Return what drafts bring by batch size, and against transformers' own."""
    rows, worst = [], []
    for case in record["cases"]:
        base = case["measured"][WITHOUT]["tokens_per_second"]
        gains = {name: one["tokens_per_second"] / base for name, one in case["measured"].items()}
        worst.append(gains[ADAPTIVE])
        per_step = (f"{one['num_tokens'] / one['num_steps']:.1f}" for one in map(case["measured"].get, (FIXED, MODEL)))
        ratios = [f"{gains[name]:.2f}" for name in (FIXED, ADAPTIVE, MODEL)]
        rows.append(
            [f"{case['workload']}, batch {case['batch_size']}", f"{base:,.0f}", *ratios, *per_step, *_peers(case)]
        )
    columns = ["", "tokens/s without", FIXED, ADAPTIVE, MODEL, "per step, 4 drafts", "per step, model"]
    first = next(case for case in record["cases"] if case["workload"] == COPYING and case["batch_size"] == 1)
    best = max(first["measured"][name]["tokens_per_second"] for name in (FIXED, ADAPTIVE))
    gain = best / first["measured"][WITHOUT]["tokens_per_second"]
    aims = [
        [f"{COPYING}, batch 1: at least {MIN_GAIN:g} times", f"{gain:.2f}", verdict(gain, MIN_GAIN)],
        [f"{ADAPTIVE}, never under {MAX_LOSS:g} times", f"{min(worst):.2f}", verdict(min(worst), MAX_LOSS)],
    ]
    same = "yes" if all(case["same_tokens"] for case in record["cases"]) else "**no**"
    return (
        f"Chats of the embedded model, greedy; every setting and every peer says the same tokens: {same}. Divided by "
        "no drafts in the same run; transformers' own drafts divided by transformers without them, where it was "
        "measured.\n\n" + table([*columns, LOOKUP_PEER, ASSISTED_PEER], rows) + table(["aim", "found", ""], aims)
    )


def _peers(case: Record) -> list[str]:
    if PLAIN_PEER not in case["measured"]:
        return ["", ""]
    base = case["measured"][PLAIN_PEER]["tokens_per_second"]
    return [f"{case['measured'][peer]['tokens_per_second'] / base:.2f}" for peer in (LOOKUP_PEER, ASSISTED_PEER)]


def in_flight(record: Record) -> str:
    """Return what lies between two forward passes with a step in flight and without."""
    rows, shares = [], []
    for case in record["cases"]:
        turn, over = case["timed"][IN_TURN], case["timed"][OVERLAPPED]
        if case["model"] == EMBEDDED:
            shares.append(over["share_between"])
        between = [f"{one['gap_ms']:.2f} ms, {one['share_between']:.0%}" for one in (turn, over)]
        speedup = over["tokens_per_second"] / turn["tokens_per_second"]
        rows.append([f"{case['model']}, batch {case['batch_size']}", *between, f"{speedup:.2f}"])
    reached = sum(share < MAX_SHARE_BETWEEN for share in shares)
    words = "met" if reached == len(shares) else f"**missed at {len(shares) - reached} of {len(shares)} batch sizes**"
    aim = f"embedded model: under {MAX_SHARE_BETWEEN:.0%} of the time is not the forward pass"
    return (
        "Between two forward passes: planning, applying, text. On a CPU these run on the cores that compute, "
        "and Python runs one thread at a time, so what is hidden comes back as a slower pass.\n\n"
        + table(["", "between passes, in turn", "with a step in flight", "tokens/s, divided by in turn"], rows)
        + table(["aim", "found", ""], [[aim, f"{min(shares):.0%} to {max(shares):.0%}", words]])
    )
