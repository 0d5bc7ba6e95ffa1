"""Measures decoding while other processes are busy: with the thread count we choose, with fixed counts, and in peer
libraries."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mini_vllm.environment import THREADS
from mini_vllm_labs.bench.backend import BackendSettings, Load
from mini_vllm_labs.bench.case import Case, Measured, Quantity, in_turns
from mini_vllm_labs.bench.models import EMBEDDED, RANDOM, RANDOM_20M, model_directory, model_size
from mini_vllm_labs.bench.peer_process import OPENVINO, PeerProcess, why_missing
from mini_vllm_labs.bench.plan import OURS, Sizes, even_requests, room_needed
from mini_vllm_labs.pictures.terminal.progress import ProgressReport
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

DEFAULT, ONE_THREAD, SPINNING, PASSIVE = "default", "one thread", "all, spinning", "all, passive"
FIXED = (ONE_THREAD, SPINNING, PASSIVE)
STATIC = "transformers-static"
PEERS = (STATIC, OPENVINO)
SPINS = 300_000  # libgomp's default count when OMP_WAIT_POLICY is unset
# output tokens per request: fewer for the larger models, because their steps take far longer
NUM_TOKENS = {EMBEDDED: 32, RANDOM_20M: 16, RANDOM: 4}
PROMPT_TOKENS = 8  # shorter than one block, so that no prompt is cached
SECONDS = 0.5  # a turn repeats short rounds until this time has passed


@dataclass(frozen=True, slots=True)
class BusyPlan:
    """Models, numbers of busy processes and batch sizes; each combination is a case."""

    models: Sequence[str]
    num_busy: Sequence[int]
    batch_sizes: Sequence[int]
    peers: Sequence[str]
    num_rounds: int
    lineup: str


def settings_of_sides(settings: BackendSettings, peers: Sequence[str]) -> dict[str, tuple[str, BackendSettings]]:
    """Return the backend and settings of each side. Peers compute on all CPUs, and their threads wait in their default
    way."""
    everything = replace(settings, num_threads=os.cpu_count() or 1)
    return {
        DEFAULT: (OURS, replace(settings, num_threads=0)),
        ONE_THREAD: (OURS, replace(settings, num_threads=1)),
        SPINNING: (OURS, replace(everything, spin_count=SPINS)),
        PASSIVE: (OURS, replace(everything, spin_count=0)),
    } | {name: (name, replace(everything, spin_count=SPINS)) for name in peers}


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run `count` processes that compute without a pause."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def busy_cases(plan: BusyPlan, folder: Path, facts: dict[str, Any], report: ProgressReport) -> Iterator[Case]:
    """Yield a case for each combination.

    Raises `PeerError` if one of our sides fails; `facts` records which peers are missing.
    """
    found = {name: why_missing(name) for name in plan.peers}
    facts["missing"] = {name: reason for name, reason in found.items() if reason}
    peers = [name for name in plan.peers if not found[name]]
    for model in plan.models:
        report(f"{model}: loading")
        directory = model_directory(model, folder)
        sizes, vocabulary = (
            Sizes(even_prompt=PROMPT_TOKENS, even_output=NUM_TOKENS[model]),
            model_size(directory).vocab_size,
        )
        largest = even_requests(max(plan.batch_sizes), vocabulary, "", sizes)
        settings = BackendSettings(str(directory), kv_cache_tokens=2 * room_needed(largest), lineup=plan.lineup)
        with opened(settings_of_sides(settings, peers)) as sides:
            for count in plan.num_busy:
                with busy_processes(count):
                    for size in plan.batch_sizes:
                        title = f"{model}, batch {size}, busy processes: {count}"
                        make = partial(even_requests, size, vocabulary, sizes=sizes)
                        runs = {name: partial(take_turn, side, make, size) for name, side in sides.items()}
                        rounds = in_turns(runs, plan.num_rounds, num_warm_ups=1, report=report, title=title)
                        yield Case.of(title, "tokens/s", DEFAULT, rounds)


@contextmanager
def opened(sides: Mapping[str, tuple[str, BackendSettings]]) -> Iterator[dict[str, PeerProcess]]:
    """Start a process for each side.

    Each process's threads depend only on its settings, not on this process's environment variables.
    """
    with ExitStack() as stack, patch.dict(os.environ):
        for variable in THREADS:
            os.environ.pop(variable.name, None)
        yield {name: stack.enter_context(closing(PeerProcess(*side))) for name, side in sides.items()}


def take_turn(side: PeerProcess, make: Callable[[str], list[TimedRequest]], size: int, number: int) -> Measured:
    """Serve batches for `SECONDS`, each with new prompts; return tokens per second of wall time."""
    num_tokens, seconds, cpu_seconds = 0, 0.0, 0.0
    while seconds < SECONDS:
        served = side.serve(make(str(random.random())), load=Load(batch_size=size))
        num_tokens, seconds = num_tokens + served.num_output_tokens, seconds + served.seconds
        cpu_seconds += served.cpu_seconds
    return Measured(num_tokens / seconds, {"CPUs in use": Quantity(cpu_seconds / seconds, "times")})


def best_of_fixed(case: Case) -> str:
    """Return the fixed thread setting with the highest median."""
    return max(FIXED, key=lambda name: case.sides[name].median)
