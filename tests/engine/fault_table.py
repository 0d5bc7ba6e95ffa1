"""`python -m tests.engine.fault_table` prints a table of how the engine's checks handle single faults in its parts."""

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, get_args

from rich.console import Console
from rich.table import Table

from mini_vllm.config import SpeculativeConfig
from mini_vllm.engine.errors import StalledError
from tests.engine.fault_kinds import KINDS, FaultKind, install
from tests.engine.workloads import add, draft_half_right, make_engine, make_workload, small_config, true_tokens

Outcome = Literal["caught", "no effect", "not fired", "wrong in silence", "wrong after recovery", "stuck"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
BAD: tuple[Outcome, ...] = ("wrong in silence", "wrong after recovery", "stuck")
MAX_STEPS = 400
TIGHT: dict[str, Any] = {"num_gpu_blocks": 13, "max_num_batched_tokens": 10, "max_num_seqs": 4}
DRAFTS = SpeculativeConfig("ngram", num_speculative_tokens=3, adaptive=False)
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "phases 1-5": ("solution:1-5", TIGHT),
    "priority": ("solution:1-5", TIGHT | {"policy": "priority"}),
    "roomy": ("solution:1-5", {"num_gpu_blocks": 60, "max_num_batched_tokens": 16}),
    "drafts": ("solution:1-5,solution:7", TIGHT | {"speculative_config": DRAFTS}),
    "async": ("solution:1-5,solution:8", TIGHT | {"async_scheduling": True}),
}


def outcome_of(kind: FaultKind, engine_name: str, seed: int, *, check_invariants: bool) -> Outcome:
    """Run a workload on an engine in which one call fails, and compare every text with the correct one."""
    rng = random.Random(seed)
    lineup, settings = ENGINES[engine_name]
    engine = make_engine(small_config(check_invariants=check_invariants, **settings), lineup)
    draft_half_right(engine)
    has_fired = install(engine.scheduler, kind, rng.choice((0, 1, 2, 3, 5, 8, 13, 21)), rng)
    workload = make_workload(seed)
    truth, pending = true_tokens(workload), list(workload)
    finished: dict[str, list[int]] = {}
    num_caught = 0
    for number in range(MAX_STEPS):
        while pending and pending[0].arrival_time <= number:
            add(engine, pending.pop(0))
        if not pending and not engine.has_unfinished_requests():
            break
        try:
            outputs = engine.step()
        except Exception as error:
            num_caught += 1
            if isinstance(error, StalledError) or num_caught > 3:
                for name in list(engine.processor.states):
                    engine.abort_request(name, str(error))
            continue
        finished |= {one.request_id: one.outputs[0].token_ids for one in outputs if one.finished and not one.error}
    is_wrong = any(tokens != truth[name] for name, tokens in finished.items())
    if engine.has_unfinished_requests():
        return "stuck"
    if is_wrong:
        return "wrong after recovery" if num_caught else "wrong in silence"
    if num_caught:
        return "caught"
    return "no effect" if has_fired() else "not fired"


def outcomes(num_seeds: int, first_seed: int, *, check_invariants: bool) -> Iterator[tuple[FaultKind, str, Outcome]]:
    """Yield the outcome of each kind of fault in each engine for each seed."""
    for kind in KINDS:
        for engine_name in ENGINES:
            for seed in range(first_seed, first_seed + num_seeds):
                yield kind, engine_name, outcome_of(kind, engine_name, seed, check_invariants=check_invariants)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="first seed of the workloads")
    parser.add_argument("--seeds", type=int, default=10, help="workloads per kind of fault and engine")
    parser.add_argument("--unchecked", action="store_true", help="without check_invariants, as in the default")
    options = parser.parse_args()
    counts: Counter[tuple[str, Outcome]] = Counter()
    for kind, _, outcome in outcomes(options.seeds, options.seed, check_invariants=not options.unchecked):
        counts[kind.name, outcome] += 1
    table = Table("one fault", *OUTCOMES)
    for kind in KINDS:
        table.add_row(kind.name, *(str(counts[kind.name, outcome]) for outcome in OUTCOMES))
    table.add_section()
    table.add_row("all", *(str(sum(n for (_, one), n in counts.items() if one == outcome)) for outcome in OUTCOMES))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
