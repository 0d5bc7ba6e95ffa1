"""`mini-vllm bench throughput`: whole workloads, compared with the backends that a user would run instead."""

import tempfile
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.models import EMBEDDED, RANDOM, model_directory, model_size
from mini_vllm_labs.bench.peer_process import BACKENDS, chosen_peers
from mini_vllm_labs.bench.plan import FULL, OURS, QUICK, ThroughputPlan
from mini_vllm_labs.bench.throughput import BETWEEN, RATE, throughput_cases, versus
from mini_vllm_labs.cli.bench.measured import LOADING, run_cases
from mini_vllm_labs.pictures.terminal.charts import shares
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText, Threads, threads_to_use
from mini_vllm_labs.pictures.terminal.progress import ProgressReport
from mini_vllm_labs.runs.workloads.fallbacks import whole_prompts


@friendly
def bench_throughput(
    model: Annotated[
        str, typer.Option(help=f"'{EMBEDDED}', '{RANDOM}' (random weights), or the path of a model directory.")
    ] = EMBEDDED,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 64,
    peers: Annotated[
        str, typer.Option(metavar="A,B", help=f"Backends to compare with: {', '.join(BACKENDS[1:])}; 'none'.")
    ] = ",".join(BACKENDS[1:]),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds per backend; backends take turns.")] = 2,
    temperature: Annotated[
        str, typer.Option(metavar="A,B", help="Temperatures of the batches and the last streams.")
    ] = "0,0.8",
    batch: Annotated[
        str, typer.Option(metavar="A,B", help="Sizes of batches with equal lengths, in and out; or 'none'.")
    ] = "1,4,16,64",
    threads: Threads = None,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Type of weights and KV cache.")] = "float32",
    lineup: LineupText = None,
    quick: Annotated[bool, typer.Option("--quick", help="A trial run: 12 short requests, one round.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve chats and documents on mini-vLLM and its peers.

    Many short chats and a few long documents are served twice: once arriving all at once, once as a stream. Next come
    one round of questions about a single document, and then batches of equal-length requests, which are the best case
    for transformers' `generate`. A table at the end shows where mini-vLLM is slower.

    Each backend has its own process, and all get the same requests, threads and KV cache size. The backends take turns,
    round by round.
    """
    names = (OURS, *chosen_peers(peers, BACKENDS[1:]))
    temperatures = numbers("--temperature", temperature, 0, is_whole=False)
    batch_sizes = [int(size) for size in numbers("--batch", batch, 1, is_whole=True)]
    team = lineup_to_run(lineup, make_console(stderr=as_json))
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: bench throughput needs phase 6, which runs the real model")
    facts: dict[str, Any] = {"model": model}
    closing: list[str | Table] = []

    def cases(report: ProgressReport) -> Iterator[Case]:
        from mini_vllm_labs.bench.roofline import Explaining

        with tempfile.TemporaryDirectory() as folder:
            directory = model_directory(model, Path(folder))
            size = model_size(directory)
            facts["num_parameters"] = size.num_parameters
            plan = ThroughputPlan(
                directory,
                size.vocab_size,
                min(requests, 12) if quick else requests,
                1 if quick else rounds,
                threads_to_use(threads),
                names,
                dtype,
                str(team),
                QUICK if quick else FULL,
                batch_sizes,
                temperatures,
            )
            if team.chunking == "absent":
                report(f"{model}: loading", found=whole_prompts(plan.settings().max_num_batched_tokens))
            explaining = Explaining(directory, dtype, plan.num_threads)
            facts["explained"] = explaining.found
            found = list[Case]()
            for case in throughput_cases(plan, facts, report, explaining):
                found.append(case)
                yield case
            closing.extend(closing_of(found, facts))

    num_batches = len(batch_sizes) * len(temperatures)
    seconds = expected_seconds(model, len(names), requests, rounds, num_batches, quick=quick)
    run_cases(cases, lineup=team, seconds=seconds, as_json=as_json, text=LOADING, closing=closing, facts=facts)


def numbers(option: str, text: str, minimum: int, *, is_whole: bool) -> list[float]:
    """Return the distinct numbers in an option's value, or an empty list for 'none'. Raises `ValueError`."""
    try:
        found = [float(part) for part in text.split(",")] if text != "none" else []
    except ValueError:
        found = [-1.0]
    if not all(minimum <= number < inf and (not is_whole or number.is_integer()) for number in found):
        kind = "whole numbers" if is_whole else "numbers"
        raise ValueError(f"{option} {text}: give {kind} of at least {minimum}, separated by commas, or 'none'")
    return list(dict.fromkeys(found))


def expected_seconds(
    model: str, num_backends: int, num_requests: int, num_rounds: int, num_batches: int, *, quick: bool
) -> float:
    """Return roughly how long the benchmark takes, scaled from recorded runs of two models."""
    work = 12.0 if model == EMBEDDED else 250.0  # one backend, 64 requests, two rounds
    if quick:
        return num_backends * (10 + work / 10)
    return num_backends * (10 + (work * num_requests / 64 + 0.3 * num_batches) * num_rounds / 2)


def closing_of(cases: Sequence[Case], facts: dict[str, Any]) -> Iterator[str | Table]:
    """Yield the seconds that each operator takes, a table of where our engine is slower, and the missing backends."""
    yield f"A round with every operator timed: {shares(facts['seconds_by_operator'])}."
    peers = [name for name in cases[0].sides if name != OURS]
    if peers:
        table = Table("Ours against", *(name.removeprefix("transformers-") for name in peers), box=None)
        for case in cases:
            table.add_row(case.title, *(cell(case, peer) if peer in case.sides else "" for peer in peers))
        yield table
        yield (
            "Tokens per second, then the median time between tokens where it counts; over 1, ours is faster. *: slower."
            " In a stream no backend can be faster than the arrivals: compare the latencies. One-by-one serves only "
            "the first requests."
        )
    for name, reason in facts["missing"].items():
        yield f"{name} is missing: {reason}"


def cell(case: Case, peer: str) -> str:
    """Return the ratios for one table cell."""
    shown = [one for one in versus(case, peer) if one.words in (RATE, BETWEEN)]
    return " ".join(f"{one.times:.2f}{'*' if one.slower else ' '}" for one in shown)
