"""`mini-vllm place` asks twelve questions to find out which phase to start with."""

from random import SystemRandom
from typing import Annotated

import typer

from mini_vllm_labs.cli.viva import ask
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.viva.placement import NUM_SHEETS, advice, first_phase, recorded
from mini_vllm_labs.viva.sheet import Sheet

PREFACE = "Twelve questions on tokens, blocks and preemption. An empty line skips one; /quit ends."


@friendly
def place(
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=NUM_SHEETS - 1, help="Which of the recorded questions. Default: any.", show_default=False
        ),
    ] = None,
) -> None:
    """Answer twelve questions to find out which phase to start with.

    Every right answer comes from a run of the reference, which is shown after your answer. Learners who know tokens,
    blocks and preemption start with phase 4.
    """
    console = make_console()
    chosen = SystemRandom().randrange(NUM_SHEETS) if seed is None else seed
    sheet = Sheet(chosen, 0, [], {}, [], recorded()[chosen])
    console.print(PREFACE, markup=False)
    ask(console, sheet, practice=True)
    console.print("\n".join(advice(first_phase(sheet.questions, sheet.given))), markup=False, soft_wrap=True)
