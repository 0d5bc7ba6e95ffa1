"""`mini-vllm bench prefix | chunked | preemption | speculative | async | sampling`: what each feature gains."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.cli.bench.measured import LOADING, ModelsThreads, run_cases
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import ProgressReport

Rounds = Annotated[int, typer.Option(min=1, help="Rounds per side; sides take turns after a warm-up.")]
Quick = Annotated[bool, typer.Option("--quick", help="A trial run: small batches, short texts, one round.")]


@dataclass(frozen=True)
class Described:
    """A benchmark: its help text, required parts, default lineup, rounds, length in seconds, and explanation."""

    help: str
    needs: tuple[str, ...]
    reference: str = "solution"
    num_rounds: int = 3
    seconds_per_round: float = 3.0
    why: str = ""


DESCRIBED = {
    "prefix": Described("Serve many questions about one document, with and without caching.", ("prefix_cache",)),
    "chunked": Described(
        "Serve long documents together with chats, with and without chunks.\n\n"
        "The documents arrive while the chats decode.",
        ("chunking",),
    ),
    "preemption": Described(
        "Generate outputs of unknown length with little memory.\n\nCompares blocks on demand with reserved memory.",
        ("kv_cache", "preemption"),
    ),
    "speculative": Described(
        "Generate answers in chats with and without drafts.\n\n"
        "Drafts come from prompt lookup and from a draft model. Batches have 1 to 64 requests.",
        ("speculation",),
        "solution:1-7",
        3,
        60,
        "Most of a small step costs the same for one token and for five: weights are read once, each layer is called "
        "once. So a draft is cheap at batch 1. The larger the batch, the more of a step is arithmetic, and the more a "
        "rejected draft costs. `adaptive` gives a request as many drafts as its acceptance rate pays for. It pauses "
        "them if not even one pays, and drafts nothing while more than 8 requests decode. A draft model costs a "
        "forward pass per draft, so it pays only for text that lookup cannot find.",
    ),
    "async": Described(
        "Generate with and without a step in flight.\n\nMeasures gaps between forward passes, and tokens per second.",
        ("async_scheduling",),
        "solution:1-6,solution:8",
        3,
        60,
        "Without overlap the runner waits while the engine applies a step, writes its text and plans the next one. "
        "With overlap this happens during the forward pass. Between two passes only the runner's own work is left: "
        "sampling, and the tensors of the next step. On a CPU this gains little or even loses, because Python runs one "
        "thread at a time, and two threads may share a core. On a GPU the forward pass needs neither; "
        "`mini-vllm bench gpu in-flight` measures it there.",
    ),
    "sampling": Described(
        "Generate greedily, at a temperature, with top-k and top-p, and under a regex.\n\n"
        "Uses three models, the last with a vocabulary of 151,936, in batches of 1 to 64. A regex needs phase 9; other "
        "grammars also need llguidance.",
        (),
        "solution:1-6,solution:9",
        5,
        120,
        "The two cuts are top_k 50, then top_p 0.9. Masks: the share of time spent on forbidding tokens.",
    ),
}


def engine_command(name: str) -> Callable[..., None]:
    """Return a benchmark's command; all of these commands take the same options."""

    @friendly
    def command(
        lineup: LineupText = None,
        rounds: Rounds = DESCRIBED[name].num_rounds,
        threads: ModelsThreads = None,
        quick: Quick = False,
        as_json: AsJson = False,
    ) -> None:
        run(name, lineup, rounds, threads, quick=quick, as_json=as_json)

    command.__doc__ = DESCRIBED[name].help  # where typer looks for the help text
    return command


bench_prefix, bench_chunked = engine_command("prefix"), engine_command("chunked")
bench_speculative, bench_async = engine_command("speculative"), engine_command("async")
bench_sampling = engine_command("sampling")


@friendly
def bench_preemption(
    lineup: LineupText = None,
    rounds: Rounds = 3,
    threads: ModelsThreads = None,
    quick: Quick = False,
    swap: Annotated[bool, typer.Option("--swap", help="Recompute or swap, by length (phase 10).")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate outputs of unknown length with little memory.

    Compares blocks allocated on demand with memory reserved in advance.
    """
    if not swap:
        run("preemption", lineup, rounds, threads, quick=quick, as_json=as_json)
        return
    team = lineup_to_run(lineup, make_console(stderr=as_json), reference=WHOLE_REFERENCE)

    def cases(report: ProgressReport) -> Iterable[Case]:
        from mini_vllm_labs.bench.swap import swap_cases

        return swap_cases(team, 1 if quick else rounds, threads, quick=quick)

    why = (
        "Recomputing costs operations: per token, and for long prompts per pair of tokens. Swapping costs bytes, out "
        "and in, and one copy per block, layer, and K or V. The simulation shows what either adds to a step of 32 "
        "decodes for a prefix that the cache has lost. It assumes bus bandwidths and 5 us per copy. The measurement "
        "uses the embedded model and phase 10 without the rest of the step, and copies within one memory, without a "
        "bus."
    )
    run_cases(cases, lineup=team, seconds=8, as_json=as_json, text=LOADING, closing=[why])


def run(name: str, lineup: str | None, num_rounds: int, threads: int | None, *, quick: bool, as_json: bool) -> None:
    """Run one of the engine's benchmarks and print the results. Raises `ValueError` if the lineup lacks a part that the
    benchmark needs."""
    one = DESCRIBED[name]
    team = lineup_to_run(lineup, make_console(stderr=as_json), reference=one.reference)
    absent = [part for part in ("runner", *one.needs) if getattr(team, part) == "absent"]
    if absent:
        raise ValueError(f"bench {name} cannot be run with the lineup {team}, which lacks {', '.join(absent)}")

    def cases(report: ProgressReport) -> Iterable[Case]:
        from mini_vllm_labs.bench.engine_benchmarks import BENCHMARKS
        from mini_vllm_labs.bench.engine_cases import measure

        if quick:
            return measure(replace(BENCHMARKS[name], **BENCHMARKS[name].quick), team, 1, threads, report)
        return measure(BENCHMARKS[name], team, num_rounds, threads, report)

    seconds = 20 if quick else one.seconds_per_round * (1 + num_rounds)
    run_cases(cases, lineup=team, seconds=seconds, as_json=as_json, text=LOADING, closing=[one.why] if one.why else [])
