"""The observer's finish: answering the questions in the tour and the claims in two notebooks."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.cli.watching.screen import Read, mark
from mini_vllm_labs.cli.watching.terminal import Watched
from mini_vllm_labs.fresh.shown_run import ShownRun, observed_run

ASKED = {"00_tour": "questions/00_tour.toml", "08_spot_the_bug": "claims/cards.toml"}
"""The notebooks and the files of their questions."""


def answers_file(notebook: str) -> Path:
    return CHECKOUT / "notebooks" / f"{notebook}.predictions.json"


def progress(notebook: str) -> tuple[int, int]:
    """Return how many questions a notebook has, and how many are answered."""
    asked = tomllib.loads((CHECKOUT / "mini_vllm_labs" / "notebook" / ASKED[notebook]).read_text(encoding="utf-8"))
    total = sum(len(group) for name, group in asked.items() if name not in ("engine", "requests"))
    try:
        return min(total, sum(map(len, json.loads(answers_file(notebook).read_text(encoding="utf-8")).values()))), total
    except (OSError, ValueError, AttributeError, TypeError):
        return 0, total


class Observer(Watched):
    """Counts the answers saved by the notebooks; ends with a recorded run, because the observer writes no code."""

    keys = "l list  o engine step  s share  q quit"
    at_the_end = "You have seen what the engine decides"
    after = "next: mini-vllm watch --finish scheduler"

    def __init__(self, console: Console, read: Read | None) -> None:
        super().__init__(console, read, "observer", list(map(answers_file, ASKED)))

    def begin(self) -> None:
        done = [self.show(notebook) for notebook in ASKED]
        if all(done):
            self.ask(self.show_end, real=False)
        self.show_keys()

    def saved(self, path: Path) -> None:
        self.begin()

    def actions(self) -> dict[str, Callable[[], None]]:
        return super().actions() | {"l": self.begin}

    def engine(self, *, real: bool) -> ShownRun:
        return observed_run()

    def show(self, notebook: str) -> bool:
        """Print how many of a notebook's questions are answered; return whether all are."""
        num_answered, total = progress(notebook)
        sign = mark(self.console, "passed" if num_answered == total else "open")
        self.say(f"  {sign} notebooks/{notebook}.ipynb: {num_answered} of {total} answered")
        return num_answered == total
