"""Claims about chunks, formulas and figures."""

from collections import Counter
from dataclasses import replace

from course.notebook.claims.claim import SETTINGS, Claim, Evidence, Setup, request, true_or_false, whether
from course.notebook.claims.preemption import PAIR, SMALL
from course.simulator.experiment import Experiment
from course.simulator.gpus import find_gpu
from course.simulator.roofline import saturation_batch
from course.simulator.served import Served
from course.simulator.what_if import what_if
from course.simulator.workloads import make_requests
from course.views.bars import bars, in_unit

SUBJECT = "chunks and numbers"
PRESET = replace(SETTINGS, max_num_batched_tokens=16)
MIXED = [request("A", range(60), 4), request("B", range(100, 104), 4)]
GPUS = ("L4", "A100-80GB", "H100", "H200")
BUDGETS = (256, 2048, 16384)


def serve_documents(budget: int) -> Served:
    """Serve 2,000 long documents in simulated time, at 70 % of what an H100 can bear."""
    documents = Experiment("documents", num_requests=2_000).with_rate()
    assert documents.rate is not None
    limits = replace(documents.resolved_engine(), max_num_batched_tokens=budget)
    return what_if(make_requests("documents", 2_000, documents.rate), limits, documents.cost)


def latencies() -> Evidence:
    """Decide whether a smaller budget makes the first token earlier."""
    served = {f"budget {budget:,}": serve_documents(budget) for budget in BUDGETS}
    first = {name: 1e3 * one.time_to_first_token([50])[0] for name, one in served.items()}
    between = {name: 1e3 * one.inter_token_latency([99])[0] for name, one in served.items()}
    falls = first["budget 256"] < first["budget 2,048"]
    charts = [
        bars("TTFT, median", first, in_unit(first, "ms")),
        bars("ITL, p99", between, in_unit(between, "ms")),
    ]
    return Evidence("true" if falls else "false", charts, "\n".join(chart.text_alternative for chart in charts))


def saturation() -> Evidence:
    """Decide whether more bandwidth makes the saturation batch larger."""
    batches = {name: saturation_batch(find_gpu(name)) for name in GPUS}
    chart = bars("Tokens at which decode becomes compute-bound", batches, in_unit(batches, "tokens"))
    sheets = [
        f"{gpu.name}: {gpu.peak_flops / 1e12:.0f} TFLOP/s, {gpu.bandwidth / 1e12:.2f} TB/s"
        for gpu in map(find_gpu, GPUS)
    ]
    larger = batches["H200"] > batches["H100"]
    return Evidence("true" if larger else "false", [chart], "\n".join([chart.text_alternative, *sheets]))


def operations() -> Evidence:
    """Count the operations of one forward pass of three tokens, without the views, which compute nothing."""
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
    counted = {"matrix products": counts["mm"], "all operations": counts.total()}
    chart = bars("One forward pass", counted, in_unit(counted, ""))
    return Evidence("true" if counts.total() == 1 else "false", [chart], chart.text_alternative)


CLAIMS = [
    Claim(
        "Without a threshold there are no chunks",
        "long_prefill_token_threshold splits long prompts. With 0, a prompt that exceeds the budget cannot be "
        "scheduled.",
        "A prompt of 40 tokens, a budget of 12, threshold 0.",
        true_or_false(SUBJECT),
        "12, 12, 12 and 4. With chunked prefill on, the budget alone splits a prompt. The threshold caps how much of a "
        "step one request may take, so that some of it is left for other requests.",
        {"threshold 0": Setup([request("A", range(40), 2)], replace(SETTINGS, max_num_batched_tokens=12))},
        whether(lambda run: run.tokens_of("A", 0) == 0),
    ),
    Claim(
        "A threshold above the budget",
        "Beside max_num_batched_tokens=2048, a long_prefill_token_threshold of 8192 does nothing.",
        "The same at a smaller scale: budget 16, with a threshold of 64, of 0, and then of 8. A has a prompt of 60 "
        "tokens, B one of 4.",
        true_or_false(SUBJECT),
        "64 and 0 give the same run. B's first token is sampled in step 3. With a threshold of 8 it is sampled in "
        "step 0, and B finishes in step 3, while A's first token is four steps later, in step 7. The pair of 2048 and "
        "8192 is often recommended for low latency.",
        {
            f"threshold {number}": Setup(MIXED, replace(PRESET, long_prefill_token_threshold=number))
            for number in (64, 0, 8)
        },
        whether(lambda high, none, low: high.recording.steps == none.recording.steps),
        lambda run: run.first_token("B"),
    ),
    Claim(
        "The first token is late, so lower the budget",
        "Time to first token is too high: reduce max_num_batched_tokens.",
        "2,000 long documents in simulated time, at 70 % of what an H100 can bear, with budgets of 2,048 and 256.",
        true_or_false(SUBJECT),
        "From 2,048 down to 256 the median TTFT rises, from 161 to 217 ms: a prompt of 3,000 tokens needs 12 steps "
        "instead of 2, and each step reads all weights again. The time between tokens does fall, from 60 to 9 ms at "
        "p99. The budget trades one for the other.",
        evidence=latencies,
    ),
    Claim(
        "More bandwidth, larger batches",
        "The batch at which decode becomes compute-bound is the memory bandwidth divided by the arithmetic intensity.",
        "If so, a GPU with more bandwidth and the same arithmetic saturates at a larger batch. An H200 is an H100 with "
        "4.8 TB/s instead of 3.35.",
        true_or_false(SUBJECT),
        "The H200 saturates at 206 tokens, the H100 at 295. A weight of 2 bytes takes 2 / bandwidth seconds to read "
        "and 2 / peak seconds per token to use. So the batch is peak / bandwidth: with more bandwidth it saturates "
        "sooner. Check the units of a formula first: bytes per second divided by operations per byte is not a number "
        "of tokens.",
        evidence=saturation,
    ),
    Claim(
        "Settings never change the text",
        "Budget, threshold, pool size and policy change when a token is computed, and never which token it is.",
        "The pair of the first card, in a large pool and in one in which B is preempted, with chunks of 5 and without "
        "a prefix cache.",
        true_or_false(SUBJECT),
        "The whole course rests on it. The fake model computes each token from the tokens that it reads back through "
        "the block table, so one wrong slot would show. On a GPU in 16-bit numbers it is true up to rounding: a sum "
        "in another order can decide a near tie differently.",
        {
            "a large pool": Setup(PAIR, SETTINGS),
            "a small pool": Setup(
                PAIR,
                replace(SMALL, max_num_batched_tokens=9, long_prefill_token_threshold=5, enable_prefix_caching=False),
            ),
        },
        whether(lambda roomy, tight: roomy.run.token_ids == tight.run.token_ids),
    ),
    Claim(
        "One launch",
        "One step of the engine is one kernel launch.",
        "The embedded model has 4 layers. One forward pass of three tokens, operation by operation.",
        true_or_false(SUBJECT),
        "29 matrix products: 7 in each of 4 layers (query, key, value, output, and three of the MLP), and one for the "
        "logits. Together with everything around them it is about 190 operations, views not counted. A step is one "
        "forward pass. On a GPU that is many kernels, which is why engines capture them once as a CUDA graph and "
        "replay it.",
        evidence=operations,
    ),
]
