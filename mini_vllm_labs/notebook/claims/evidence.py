"""Computes the evidence, keyed by card title, for the cards that are not about a schedule."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from random import Random

from mini_vllm_labs.notebook.claims.claim import Evidence
from mini_vllm_labs.pictures.bars import bars, in_unit
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.gpus import GIGA, find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape
from mini_vllm_labs.simulation.roofline import BYTES_PER_NUMBER, activation_bytes, saturation_batch, weight_bytes
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.what_if import what_if
from mini_vllm_labs.simulation.workloads import make_requests

GPUS = ("L4", "A100-80GB", "H100", "H200")
BUDGETS = (256, 2048, 16384)
BUDGET = 8192
SIGMAS, NUM_JOBS, LOADS = (0.7, 1.2), 20_000, (0.5, 0.8, 0.95)
DRAFTS, SHARE_RIGHT = 3, 0.7
Jobs = Sequence[tuple[float, float]]
COUNTED = {"matrix products": 29, "all operations": 190}


def serve_documents(budget: int) -> Served:
    """Serve 2,000 long documents in simulated time, at 70% of the rate that an H100 sustains."""
    documents = Experiment("documents", num_requests=2_000).with_rate()
    assert documents.rate is not None
    limits = replace(documents.resolved_engine(), max_num_batched_tokens=budget)
    return what_if(make_requests("documents", 2_000, documents.rate), limits, documents.cost)


def latencies() -> Evidence:
    """Decide whether a smaller budget makes the first token arrive earlier."""
    served = {f"budget {budget:,}": serve_documents(budget) for budget in BUDGETS}
    first = {name: 1e3 * one.time_to_first_token([50])[0] for name, one in served.items()}
    between = {name: 1e3 * one.inter_token_latency([99])[0] for name, one in served.items()}
    charts = [bars("TTFT, median", first, in_unit(first, "ms")), bars("ITL, p99", between, in_unit(between, "ms"))]
    falls = "true" if first["budget 256"] < first["budget 2,048"] else "false"
    return Evidence(falls, charts, "\n".join(chart.text_alternative for chart in charts))


def saturation() -> Evidence:
    """Decide whether more bandwidth makes the saturation batch larger."""
    gpus = [find_gpu(name) for name in GPUS]
    batches = {gpu.name: saturation_batch(gpu) for gpu in gpus}
    chart = bars("Tokens at which decode becomes compute-bound", batches, in_unit(batches, "tokens"))
    sheets = [f"{gpu.name}: {gpu.peak_flops / 1e12:.0f} TFLOP/s, {gpu.bandwidth / 1e12:.2f} TB/s" for gpu in gpus]
    larger = "true" if batches["H200"] > batches["H100"] else "false"
    return Evidence(larger, [chart], "\n".join([chart.text_alternative, *sheets]))


def operations() -> Evidence:
    """Count the operations in one forward pass over three tokens, except views, which compute nothing."""
    counted = COUNTED if IN_BROWSER else counted_operations()  # torch is not available in a browser
    chart = bars("One forward pass", counted, in_unit(counted, ""))
    return Evidence("true" if counted["all operations"] == 1 else "false", [chart], chart.text_alternative)


def counted_operations() -> dict[str, int]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from mini_vllm.runner.loading import load_model

    counts: Counter[str] = Counter()

    class CountOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if not operation.is_view:
                counts[operation.overloadpacket.__name__] += 1
            return operation(*args, **(kwargs or {}))

    loaded, _ = load_model()
    with torch.no_grad(), CountOperations():  # type: ignore[no-untyped-call]
        loaded.model(torch.tensor([[5, 6, 7]]))
    return {"matrix products": counts["mm"], "all operations": counts.total()}


def activations() -> Evidence:
    """Compare the activations that exist at once in a step with the formula that multiplies by the number of layers."""
    model = find_model_shape("Llama-3.1-70B")
    of_all = BUDGET * model.hidden_size * model.num_layers * BYTES_PER_NUMBER
    held = {"at once": activation_bytes(model, BUDGET) / GIGA, "as claimed": of_all / GIGA}
    chart = bars("Activations of 8,192 tokens, GB", held, {name: f"{gb:.1f} GB" for name, gb in held.items()})
    return Evidence(round(held["at once"], 1), [chart], chart.text_alternative)


def left_beside_weights() -> Evidence:
    """Subtract a 70B model's weights from the memory of four A100s."""
    weights = weight_bytes(find_model_shape("Llama-3.1-70B")) / GIGA
    parts = {"weights": weights, "left": 4 * 80 - weights}
    chart = bars("Of 320 GB", parts, in_unit(parts, "GB"))
    return Evidence(round(parts["left"]), [chart], chart.text_alternative)


def completion() -> Evidence:
    """Compare running one job at a time with sharing a server's speed equally among jobs, by mean job time."""
    times = {f"sigma {sigma}, {order}": mean for sigma in SIGMAS for order, mean in mean_times(sigma).items()}
    chart = bars("Mean time, in mean lengths", times, {name: f"{mean:.1f}" for name, mean in times.items()})
    in_turn, shared = (times[f"sigma {SIGMAS[-1]}, {order}"] for order in ("in turn", "shared"))
    return Evidence("in turn" if in_turn < shared else "shared", [chart], chart.text_alternative)


def mean_times(sigma: float) -> dict[str, float]:
    """Return the mean time, in mean job lengths, of 20,000 jobs for each service order at 80% load."""
    jobs = jobs_of(sigma, LOADS[1])
    return {"in turn": in_turn_time(jobs) / NUM_JOBS, "shared": shared_time(jobs) / NUM_JOBS}


def jobs_of(sigma: float, load: float) -> Jobs:
    """Return 20,000 jobs as (arrival, length), with lognormal lengths whose mean is 1."""
    rng, now, jobs = Random(0), 0.0, list[tuple[float, float]]()
    for _ in range(NUM_JOBS):
        now += rng.expovariate(load)
        jobs.append((now, rng.lognormvariate(-(sigma**2) / 2, sigma)))
    return jobs


def in_turn_time(jobs: Jobs) -> float:
    total = free = 0.0
    for arrival, length in jobs:
        free = max(free, arrival) + length
        total += free - arrival
    return total


def shortest_first_time(jobs: Jobs) -> float:
    """Return the total time of the jobs on a server that runs the shortest waiting job first."""
    total = free = 0.0
    coming, waiting = deque(jobs), list[tuple[float, float]]()
    while coming or waiting:
        free = free if waiting else max(free, coming[0][0])
        while coming and coming[0][0] <= free:
            arrival, length = coming.popleft()
            heappush(waiting, (length, arrival))
        length, arrival = heappop(waiting)
        free += length
        total += free - arrival
    return total


def shared_time(jobs: Jobs) -> float:
    """Return the total time of jobs (arrival, length) on a server that divides its speed equally among them."""
    total = clock = served = 0.0  # `served`: the service received by a job that has been there from the start
    there: list[tuple[float, float]] = []
    for arrival, length in (*jobs, (inf, 0.0)):
        while there and clock + (there[0][0] - served) * len(there) <= arrival:
            end, arrived = there[0]
            clock, served = clock + (end - served) * len(there), end
            total += clock - arrived
            heappop(there)
        served += (arrival - clock) / len(there) if there else 0.0
        clock = arrival
        heappush(there, (served + length, arrival))
    return total


def gains() -> Evidence:
    """Compare first-come-first-served with shortest-job-first at three loads."""
    loads = {load: jobs_of(SIGMAS[-1], load) for load in LOADS}
    gain = {f"load {load:.0%}": in_turn_time(jobs) / shortest_first_time(jobs) for load, jobs in loads.items()}
    chart = bars("Mean time, times shorter", gain, {name: f"{times:.1f}" for name, times in gain.items()})
    return Evidence(round(gain[f"load {LOADS[0]:.0%}"], 1), [chart], chart.text_alternative)


def best_pace() -> Evidence:
    """Compare the shortest possible step, which reads the weights once, with a step that produces several tokens."""
    step = 1e3 * weight_bytes(find_model_shape("Llama-3.1-8B")) / find_gpu("H100").bandwidth
    tokens = sum(SHARE_RIGHT**place for place in range(DRAFTS + 1))
    pace = {"a batch of 1": step, f"and {DRAFTS} drafts": step / tokens}
    chart = bars("A token, at best", pace, {name: f"{ms:.1f} ms" for name, ms in pace.items()})
    return Evidence(round(step, 1), [chart], f"{chart.text_alternative}\ntokens in a step with drafts: {tokens:.1f}")


EVIDENCE: dict[str, Callable[[], Evidence]] = {
    "The first token is late, so lower the budget": latencies,
    "More bandwidth, larger batches": saturation,
    "One launch": operations,
    "Activations of all layers": activations,
    "200 GB are left": left_beside_weights,
    "Run to completion": completion,
    "Ranked by length": gains,
    "A batch size for each class": best_pace,
}
