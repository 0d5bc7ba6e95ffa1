"""`mini-vllm cards`: sixty questions and answers to memorise, or only those that a learner got wrong."""

from pathlib import Path
from typing import Annotated

import typer

from mini_vllm_labs.flashcards import Flashcard, all_cards
from mini_vllm_labs.flashcards import anki as as_anki
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.step_view import STRONG


@friendly
def cards(
    due: Annotated[bool, typer.Option("--due", help="Only those you got wrong; the next notebook asks them.")] = False,
    anki: Annotated[Path | None, typer.Option(metavar="FILE", help="Write them for Anki's importer.")] = None,
) -> None:
    """Print questions and answers by phase, or write them for Anki.

    One of the course's checks recomputes each answer. --due shows at most three questions that you got wrong in
    notebooks; the next notebook begins with them.
    """
    console, shown = make_console(), due_cards() if due else all_cards()
    if anki is not None:
        with anki.open("x", encoding="utf-8", newline="\n") as file:
            file.write(as_anki(shown))
        console.print(f"{anki}: {len(shown)} cards. In Anki: File, Import.", markup=False, soft_wrap=True)
        return
    topic = ""
    for card in shown:
        if card.topic != topic:
            console.print(f"\n{card.topic}", style=STRONG, markup=False)
        topic = card.topic
        console.print(f"\n{card.question}\n  {card.answer}", markup=False)
    if not shown:
        console.print("Nothing is due.")


def due_cards() -> list[Flashcard]:
    """Return the questions that the next notebook asks again. Raises `ValueError` if `recall.json` cannot be read."""
    from mini_vllm_labs.notebook.recall import Recall  # the notebooks' code takes a long time to import

    missed = Recall().read().started("").due()
    return [Flashcard(one.notebook, one.asked(), one.answered()) for one in missed]
