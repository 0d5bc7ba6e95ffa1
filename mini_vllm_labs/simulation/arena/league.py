"""A league, which runs each file's `MyPolicy` on the same requests, each in a separate process with limits.

The limits keep a league going whatever a file does. With bubblewrap, a file can neither write files nor use a network.
Neither the limits nor bubblewrap prevents code from forging its own figures: if points are at stake, read the code that
you run.
"""

import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm_labs.runs.sandbox.channel import ChannelError, take_stdio
from mini_vllm_labs.runs.sandbox.imports import refused_import
from mini_vllm_labs.runs.sandbox.limits import Limits, limit_resources
from mini_vllm_labs.runs.sandbox.read_only import read_only
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess
from mini_vllm_labs.simulation.arena.contest import serve_requests
from mini_vllm_labs.simulation.arena.figures import Figures, figures_of
from mini_vllm_labs.simulation.arena.loads import ArenaLoad
from mini_vllm_labs.simulation.cost_model import gpu_cost_model
from mini_vllm_labs.simulation.gpus import find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape

# more requests than the seats can serve in time
LOADS = (ArenaLoad("burst", 100, rate=4.0), ArenaLoad("mixed", 80, rate=4.5))
GPU, MODEL = "L40S", "Llama-3.1-8B"
ENGINE = EngineConfig(max_num_seqs=16, max_num_batched_tokens=1024, num_gpu_blocks=3000, max_model_len=16_000)
CPU_SECONDS, WALL_SECONDS = 10, 60
LIMITS = Limits(memory_bytes=2**30, file_bytes=2**20, num_open_files=64)
SUBMISSION = "<submission>"
SIGNALLED = 128  # bubblewrap adds this to the number of the signal that killed its command
COMMAND = (sys.executable, "-c", "from mini_vllm_labs.simulation.arena.league import serve; serve()")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file's result, rounded as shown. An entry with a `problem` has place 0.

    `goodput` is the number of requests per second that met every limit, and `latency` is the mean number of seconds
    from arrival to the last token. Both, and Jain's index of the tenants' service, are means over the loads.
    """

    name: str
    place: int = 0
    goodput: float = 0.0
    jain_index: float = 0.0
    latency: float = 0.0
    problem: str = ""

    @property
    def score(self) -> tuple[bool, float, float, float]:
        """The key that sorts entries, best first, by goodput, then Jain's index, then latency."""
        return bool(self.problem), -self.goodput, -self.jain_index, self.latency


def run_league(
    files: Sequence[Path],
    lineup: Lineup,
    seed: int = 0,
    num_jobs: int | None = None,
    cpu_seconds: int = CPU_SECONDS,
    on_finished: Callable[[int], None] = lambda num_finished: None,
) -> list[Entry]:
    """Run all files, `num_jobs` at a time (None: one per core), and return the table; equal scores share a place.

    Each file may use `cpu_seconds` of CPU time. The same seed gives the same table on every machine.
    """
    with ThreadPoolExecutor(num_jobs or os.cpu_count() or 1) as pool:  # threads only wait for processes
        futures = [pool.submit(run_file, path, lineup, seed, cpu_seconds) for path in files]
        for num_finished, _ in enumerate(as_completed(futures), start=1):
            on_finished(num_finished)
    entries = sorted((future.result() for future in futures), key=lambda entry: (entry.score, entry.name))
    scores = [entry.score for entry in entries]
    return [entry if entry.problem else replace(entry, place=1 + scores.index(entry.score)) for entry in entries]


def run_file(path: Path, lineup: Lineup, seed: int, cpu_seconds: int = CPU_SECONDS) -> Entry:
    """Run one file in a separate process. Returns an entry whatever the file does."""
    name = path.parent.resolve().name if path.stem == "starter" else path.stem
    try:
        source = path.read_bytes()
        message = {"source": source.decode(), "lineup": str(lineup), "seed": seed, "cpu_seconds": cpu_seconds}
    except (OSError, UnicodeError) as error:
        return Entry(name, problem=f"the file cannot be read ({type(error).__name__})")
    if refusal := refused_import(source):
        return Entry(name, problem=refusal)
    with WorkerProcess(read_only(COMMAND, CHECKOUT), env={"PATH": os.defpath, "PYTHONHASHSEED": "0"}) as worker:
        worker.deadline = time.monotonic() + WALL_SECONDS
        try:
            worker.send(message)
            answer = worker.receive()
            if "problem" in answer:
                return Entry(name, problem=str(answer["problem"])[:300])
            return Entry(name, 0, *(round(answer[figure], 3) for figure in ("goodput", "jain_index", "latency")))
        except ChannelError as error:
            return Entry(name, problem=_why_no_answer(error, worker, cpu_seconds))
        except (KeyError, TypeError, ValueError) as error:
            return Entry(name, problem=f"no figures came back ({error})")


def serve() -> None:
    """Receive a file in its separate process, run it, and send its figures or its problem."""
    channel = take_stdio()
    message = channel.receive()
    limit_resources(replace(LIMITS, cpu_seconds=message["cpu_seconds"]))
    channel.send(outcome(message["source"], parse_lineup(message["lineup"]), message["seed"]))
    os._exit(0)  # stops any threads that the file left running


def outcome(source: str, lineup: Lineup, seed: int) -> dict[str, Any]:
    """Return the figures of a source's `MyPolicy`, or a sentence that describes its `problem`."""
    try:
        module = ModuleType("submission")
        sys.modules["submission"] = module  # dataclasses look up a class's module
        exec(compile(source, SUBMISSION, "exec"), vars(module))
        make = getattr(module, "MyPolicy", None)
        if not (isinstance(make, type) and issubclass(make, SchedulingPolicy)):
            return {"problem": "the file has no class MyPolicy(SchedulingPolicy)"}
        runs = [run_load(load, seed, make(), lineup) for load in LOADS]
    except BaseException as error:  # also SystemExit
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f" (line {frame.lineno})" for frame in frames if frame.filename == SUBMISSION]
        return {"problem": f"{type(error).__name__}: {error}{''.join(lines[-1:])}"}
    good = [sum(of_class.requests_per_second for of_class in run.classes.values()) for run in runs]
    return {
        "goodput": fmean(good),
        "jain_index": fmean(run.jain_index for run in runs),
        "latency": fmean(run.e2e.mean for run in runs),
    }


def run_load(load: ArenaLoad, seed: int, policy: SchedulingPolicy, lineup: Lineup) -> Figures:
    """Run a policy on a load. Raises `ValueError` if the policy changed a request's number of tokens."""
    random.seed(seed)  # a policy may use random numbers
    requests = load.requests(seed)
    cost = gpu_cost_model(find_gpu(GPU), find_model_shape(MODEL))
    served, accounts = serve_requests(requests, policy, ENGINE, cost, lineup)
    for number, request in enumerate(requests):
        if (got := len(accounts.token_times[str(number)])) != request.num_output_tokens:
            raise ValueError(f"request {number} got {got} of its {request.num_output_tokens} tokens")
    return figures_of(served, accounts)


def _why_no_answer(error: ChannelError, worker: WorkerProcess, cpu_seconds: int) -> str:
    if error.reason != "closed":
        return f"no answer within {WALL_SECONDS} seconds: does it wait for something?"
    if worker.status < 0 or worker.status > SIGNALLED:
        return f"stopped after {cpu_seconds} seconds of CPU time, or for its memory: does a loop never end?"
    return f"ended its process with exit code {worker.status}"
