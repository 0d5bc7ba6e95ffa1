"""`mini-vllm bench scheduler`: the CPU time of scheduling and, with `--peer vllm`, also that of vLLM's scheduler."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Literal

import typer

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.release_rules import RELEASES, rules_of
from mini_vllm_labs.bench import peer_process
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.scheduler import NUM_ADMISSIONS, NUM_ROUNDS, scheduler_cases
from mini_vllm_labs.bench.scheduling import CLOCK, SHARED_TOKENS
from mini_vllm_labs.cli.bench.measured import run_cases
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import ProgressReport


@friendly
def bench_scheduler(
    lineup: LineupText = None,
    peer: Annotated[
        Literal["vllm"] | None, typer.Option(help="Also run vLLM's own scheduler, in one process.", show_default=False)
    ] = None,
    peer_version: Annotated[
        str, typer.Option(help=f"The peer's release, {' or '.join(RELEASES)}; ours decides by its rules.")
    ] = RELEASES[0],
    quick: Annotated[bool, typer.Option("--quick", help="With --peer: two rounds, fewer admissions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the CPU time of scheduling, per request.

    The time covers schedule() and update_from_output().
    """
    team = replace(lineup_to_run(lineup, make_console(stderr=as_json)), runner="absent")
    num_rounds, num_admissions = (2, 100) if quick else (NUM_ROUNDS, NUM_ADMISSIONS)
    why = f"CPU microseconds, medians of {NUM_ROUNDS} rounds. Clock: time.{CLOCK}, garbage collector on."

    def cases(report: ProgressReport) -> Iterable[Case]:
        return (
            scheduler_cases(team, report)
            if peer is None
            else beside_vllm(team, peer_version, num_rounds, num_admissions)
        )

    if peer is not None:
        rules_of(peer_version)
        if (reason := peer_process.why_missing(peer_process.VLLM, peer_version)) is not None:
            raise ValueError(reason)
        if peer_version != RELEASES[0] and team.year == "absent":
            team = replace(team, year="solution" if solutions_exist() else "starter")  # phase 14 implements its rules
        if team.kv_cache == "absent":
            raise ValueError(
                f"lineup {team}: --peer vllm needs phase 2, because vLLM also divides its memory into blocks"
            )
        why = (
            f"CPU microseconds per request, medians of {num_rounds} rounds in turns, in one process; ratios are ours "
            f"over vLLM's. Decode and admission: schedule() and update_from_output(). Arrival: the request is built "
            f"from its tokens, hashed and queued. {num_admissions:,} requests are admitted in one step and share "
            f"{SHARED_TOKENS} cached tokens. vLLM's schedule() also writes the message to its workers; "
            f"our runner gets the requests themselves. Clock: time.{CLOCK}."
        )
    facts = {"clock": f"time.{CLOCK}", "num_admissions": num_admissions}
    run_cases(cases, lineup=team, seconds=10 if quick else 30, as_json=as_json, closing=[why], facts=facts)


def beside_vllm(lineup: Lineup, release: str, num_rounds: int, num_admissions: int) -> Iterator[Case]:
    """Yield each comparison with vLLM's own scheduler as soon as it is ready. Raises `PeerError` if the process with
    vLLM's scheduler fails."""
    arguments = ["mini_vllm_labs.bench.vllm_scheduler", str(lineup), f"{num_rounds}", f"{num_admissions}"]
    name = "the process with vLLM's scheduler"
    with closing(peer_process.JsonLines(name, peer_process.vllm_python(release), arguments, {})) as lines:
        yield from map(Case.read, lines)
