"""The observer's finish: the questions of the tour and the claims, which are answered in two notebooks."""

import time
import tomllib
from pathlib import Path

from rich.console import Console

from cli.share import free_name, page_of, write_page
from cli.watching import screen
from cli.watching.keyboard import Read
from cli.watching.saves import Saves
from course.fresh.shown_run import ShownRun, observed_run
from course.grading.view import heading
from course.terminal.step_view import FAINT
from mini_vllm.assembly.lineup import CHECKOUT

COURSE = CHECKOUT / "course" / "notebook"
TOUR, CLAIMS = "00_tour", "08_spot_the_bug"
PAGE = Path("mini-vllm-observer.html")
KEYS = "l list   o a step of the engine   s page to share   q quit"


def asked() -> dict[str, int]:
    """Return how many questions each of the two notebooks asks."""
    tour = tomllib.loads((COURSE / "questions" / f"{TOUR}.toml").read_text(encoding="utf-8"))
    cards = tomllib.loads((COURSE / "claims" / "cards.toml").read_text(encoding="utf-8"))
    return {
        TOUR: sum(map(len, tour.values())),
        CLAIMS: sum(len(group) for group in cards.values() if isinstance(group, list)),
    }


def answers_file(notebook: str) -> Path:
    return CHECKOUT / "notebooks" / f"{notebook}.predictions.json"


def answered(notebook: str) -> int:
    """Return how many questions of a notebook are answered."""
    from course.notebook.predictions import Kept

    return sum(map(len, Kept(answers_file(notebook)).read().values()))


class Observer:
    """Counts answers as the notebooks keep them; the end is a recorded run, because nothing was written."""

    def __init__(self, console: Console, read: Read | None) -> None:
        self.console, self.read = console, read
        self.saves = Saves([answers_file(notebook) for notebook in asked()])
        self.run: ShownRun = observed_run()
        self.step = self.run.first
        self.has_ended = False

    def go(self) -> None:
        """Watch until `q` or Ctrl-C."""
        self.console.print("Watching your answers (finish: observer). Open the notebooks: make lab")
        self.show_list()
        while True:
            for key in self.read(0.1) if self.read else "":
                if key == "q":
                    return
                self.press(key)
            if self.saves.poll(time.monotonic()):
                self.show_list()
            if self.read is None:
                time.sleep(0.1)

    def press(self, key: str) -> None:
        if key == "o":
            screen.show_step(self.console, self.run, self.step)
            self.step = (self.step + 1) % len(self.run.recording.steps)
        elif key == "s":
            self.write()
        elif key == "l":
            self.show_list()
        else:
            self.console.print(KEYS, style=FAINT)

    def show_list(self) -> None:
        """Print what is answered; at the end a step of the recorded run, and the page to share."""
        left = 0
        for notebook, total in asked().items():
            done = min(total, answered(notebook))
            left += total - done
            sign = screen.mark(self.console, "open" if done < total else "passed")
            self.console.print(f"  {sign} notebooks/{notebook}.ipynb: {done} of {total} answered", markup=False)
        if left == 0 and not self.has_ended:
            self.has_ended = True
            screen.show_step(self.console, self.run, self.step)
            heading(self.console, "You have seen what the engine decides, and finished: observer.")
            if not PAGE.exists():
                self.write()
            self.console.print("next: mini-vllm watch --finish scheduler", markup=False)
        if self.read is not None:
            self.console.print(KEYS, style=FAINT)

    def write(self) -> None:
        file = free_name(PAGE)
        write_page(file, page_of(self.run).encode())
        self.console.print(f"A page to share: {file.resolve()}", markup=False, soft_wrap=True)
