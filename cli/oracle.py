"""`mini-vllm oracle`: the first step in which your decisions diverge from the right ones."""

from typing import Annotated

import typer

from cli.recorded_oracle import compare_with_recordings
from course.oracle.divergence import find_culprit, search, settings_for
from course.sandbox.explain import explain
from course.starter_status import written_phases
from course.terminal.console import fail, friendly, make_console
from course.terminal.differences import last_steps, side_by_side
from course.terminal.learner_lineup import enumeration
from course.terminal.options import chosen_phases
from course.terminal.progress import counted, reported
from course.workloads.small_workload import make_workload
from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm.assembly.parts import Impl, solutions_exist

NUM_SEEDS = 40
NUM_PHASES = 5
DEFAULT = "1-5" if solutions_exist() else "what is written"


@friendly
def oracle(
    phase: Annotated[str | None, typer.Option(metavar="K or K-M", help=f"Your phases. Default: {DEFAULT}.")] = None,
    seed: Annotated[int | None, typer.Option(help=f"Seed of one workload. Default: {NUM_SEEDS} workloads.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests per workload.")] = 10,
) -> None:
    """Show the first step in which your decisions differ from the right ones.

    And the phase that causes it.

    With the solutions present, both lineups run the same workloads; yours replaces the reference's phases. Without
    them your phases replay the recorded steps of vLLM that need no other phase; the other options have no effect.

    Exit code 1 if one differs. The engine runs the fake model, so phase 6 is not compared.
    """
    console = make_console()
    if not solutions_exist():
        compare_with_recordings(phase, console)
        return
    phase = phase or f"1-{NUM_PHASES}"
    mine, reference = lineup_with_starters(phase), parse_lineup("solution:1-5")
    seeds = range(NUM_SEEDS) if seed is None else [seed]
    console.print(f"yours: phase {phase}; all other phases are the reference's", markup=False)
    try:
        with reported("Comparing") as report:
            found = search(counted(seeds, "Comparing workloads", report), requests, mine, reference)
    except NotImplementedError as error:
        fail(cannot_compare(mine, error), 1)
    if found is None:
        workloads = f"{len(seeds)} workloads" if len(seeds) > 1 else f"the workload of seed {seeds[0]}"
        console.print(f"The same decisions in every step, block for block, on {workloads}.")
        return
    seed, divergence = found
    if divergence.error is None:
        heading = f"the first difference is in step {divergence.step}"
    elif divergence.step == 0:
        heading = "nothing can be compared, because your engine raised in its first step"
    else:
        heading = f"the same decisions up to step {divergence.step}, in which your engine raised"
    console.print(f"\nseed {seed}: {heading}", style="bold")
    if divergence.error is not None:
        console.print(explain(divergence.error, {}), markup=False, soft_wrap=True)
    for title, records in (("reference", divergence.reference), ("yours", divergence.mine)):
        if len(records) > divergence.step:
            console.print(last_steps(title, records))
    if divergence.error is None:
        console.print(side_by_side(divergence))
    arrivals, config = make_workload(seed, requests), settings_for(seed)
    with reported("Looking for the phase that causes it"):
        culprits = find_culprit(arrivals, config, mine, reference)
    if culprits:
        names = " or ".join(str(number) for number in culprits)
        console.print(f"With the reference's phase {names} in place of yours the difference disappears.")
    console.print(f"To repeat: mini-vllm oracle --phase {phase} --seed {seed} --requests {requests}", markup=False)
    raise typer.Exit(1)


def lineup_with_starters(phases: str) -> Lineup:
    """Return the reference with starters in `phases` (1 to 5). Raises `ValueError`."""
    try:
        chosen = chosen_phases(phases, NUM_PHASES)
    except ValueError:
        raise ValueError(
            f"--phase {phases}: the oracle compares decisions, which phases 1 to {NUM_PHASES} make; "
            f"give one of them, or a range such as 1-3"
        ) from None
    impls: list[Impl] = ["starter" if phase in chosen else "solution" for phase in range(1, NUM_PHASES + 1)]
    return Lineup(*impls)


def cannot_compare(mine: Lineup, error: NotImplementedError) -> str:
    """Return which chosen phases are not written, and the command that compares those that are."""
    chosen = [phase for phase in range(1, NUM_PHASES + 1) if mine[phase] == "starter"]
    written = written_phases()
    missing = enumeration([phase for phase in chosen if phase not in written] or chosen)
    commands = [f"`mini-vllm oracle --phase {phase}`" for phase in chosen if phase in written]
    return (
        f"nothing can be compared yet: {error} is not written, and the oracle needs whole phases. "
        f"Phases to finish: {missing}." + (f" You can compare: {', '.join(commands)}." if commands else "")
    )
