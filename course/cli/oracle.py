"""`mini-vllm oracle`: the first step in which your decisions diverge from the reference's."""

from typing import Annotated

import typer

from course.oracle.divergence import find_culprit, search, settings_for
from course.terminal.console import friendly, make_console
from course.terminal.divergence_tables import last_steps, side_by_side
from course.workloads.small_workload import make_workload
from mini_vllm.seams.lineup import Lineup, parse_lineup, solutions_exist

NUM_SEEDS = 40


@friendly
def oracle(
    phase: Annotated[
        str, typer.Option(metavar="K or K-M", help="Your phases; all others are the reference's.")
    ] = "1-5",
    seed: Annotated[int | None, typer.Option(help=f"Seed of one workload. Default: {NUM_SEEDS} workloads.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests per workload.")] = 10,
) -> None:
    """Run the same workloads on your phases and on the reference; show the first step that differs.

    Exit code 1 if one differs. The engine runs the fake model, so phase 6 is not compared.
    """
    if not solutions_exist():
        raise ValueError(
            "the oracle compares your decisions with the reference's, and this student edition has no reference; "
            "`mini-vllm parity --lineup starter:1-5` compares them with vLLM's"
        )
    console = make_console()
    mine, reference = lineup_with_starters(phase), parse_lineup("solution:1-5")
    seeds = range(NUM_SEEDS) if seed is None else [seed]
    console.print(f"yours: phase {phase}; all other phases are the reference's", markup=False)
    found = search(seeds, requests, mine, reference)
    if found is None:
        workloads = f"{len(seeds)} workloads" if len(seeds) > 1 else f"the workload of seed {seeds[0]}"
        console.print(f"The same decisions in every step, block for block, on {workloads}.")
        return
    seed, divergence = found
    console.print(f"\nseed {seed}: the first difference is in step {divergence.step}", style="bold")
    if divergence.error is not None:
        console.print(f"yours raised {type(divergence.error).__name__}: {divergence.error}", markup=False)
    for title, records in (("reference", divergence.reference), ("yours", divergence.mine)):
        if len(records) > divergence.step:
            console.print(last_steps(title, records))
    if divergence.error is None:
        console.print(side_by_side(divergence))
    arrivals, config = make_workload(seed, requests), settings_for(seed)
    culprits = find_culprit(arrivals, config, mine, reference)
    if culprits:
        names = " or ".join(str(number) for number in culprits)
        console.print(f"With the reference's phase {names} in place of yours the difference disappears.")
    console.print(f"To repeat: mini-vllm oracle --phase {phase} --seed {seed} --requests {requests}", markup=False)
    raise typer.Exit(1)


def lineup_with_starters(phases: str) -> Lineup:
    """Return the lineup with starters in `phases` (1 to 5) and the reference elsewhere. Raises `ValueError`."""
    mine = parse_lineup(f"starter:{phases}") if phases.startswith("1") else parse_lineup(f"solution:1,starter:{phases}")
    if mine.runner != "absent":
        raise ValueError(f"--phase {phases}: the oracle compares decisions of phases 1 to 5")
    impls = [mine[number] if mine[number] == "starter" else "solution" for number in range(1, 6)]
    return Lineup(*impls)
