"""`mini-vllm incidents`: it is 03:10, a metric looks bad, and one of four knobs is the right one."""

from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console

from mini_vllm_labs.cli.simulate import sweep_table
from mini_vllm_labs.pictures.terminal.charts import facts_table
from mini_vllm_labs.pictures.terminal.console import friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import LineupText
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.pictures.terminal.step_view import STRONG
from mini_vllm_labs.pictures.terminal.typed_lines import typed_lines, typed_number
from mini_vllm_labs.simulation.incidents import POINTS, Runs, incidents


@friendly
def play(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order, the knobs and the requests.")] = 0,
    answers: Annotated[bool, typer.Option("--answers", help="Ask nothing; show all runs.")] = False,
    lineup: LineupText = None,
) -> None:
    """Work through ten incidents in simulated time: which knob would you turn?

    The game turns every knob on your scheduler and compares the runs. The best run earns 10 points, and a run that
    improves nothing earns 0 points. Type the number of a knob; /quit ends the game.
    """
    console = make_console()
    team = replace(lineup_to_run(lineup, console), runner="absent")
    console.print(whose_code(team), markup=False)
    typed = typed_lines("knob: ")
    points: list[int] = []
    cards = incidents(seed)
    for number, incident in enumerate(cards, start=1):
        with reported("Turning every knob"):
            runs = incident.run(team)
        show_page(console, f"{number} of {len(cards)} · {incident.title}", runs)
        if answers:
            show_runs(console, runs)
            continue
        answer = typed_number(console, typed, "a knob", len(incident.knobs))
        if answer is None:
            break
        knob = int(answer) - 1
        points.append(runs.points(knob))
        show_runs(console, runs)
        console.print(f"{incident.knobs[knob]}: {points[-1]} of {POINTS} points", style=STRONG, markup=False)
    if not answers:
        console.print(
            f"\n{sum(points)} of {POINTS * len(points)} points in {len(points)} of {len(cards)} incidents, "
            f"seed {seed}.",
            style=STRONG,
            markup=False,
        )


def show_page(console: Console, title: str, runs: Runs) -> None:
    """Print the symptom, the figures and the knobs."""
    console.print(f"\n{title}", style=STRONG, markup=False)
    console.print(runs.symptom(), markup=False)
    console.print(facts_table(runs.figures()))
    for number, knob in enumerate(runs.incident.knobs, start=1):
        console.print(f"  {number}  {knob}", markup=False)


def show_runs(console: Console, runs: Runs) -> None:
    """Print the result of turning each knob, and the lesson."""
    names = ["as it was", *(f"knob {number}" for number in range(1, len(runs.after) + 1))]
    console.print(sweep_table("after each knob, in ms", names, [runs.before, *runs.after]))
    console.print(f"Knob {runs.best + 1}, {runs.incident.knobs[runs.best]}. {runs.lesson()}", markup=False)
