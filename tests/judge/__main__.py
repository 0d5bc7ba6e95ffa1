"""`python -m tests.judge [EVERY] [OFFSET] [--phase N]`: the judge on the catalogue of mistakes and fair alternatives.

Takes every so many-th, from an offset on. Prints for each phase how many fair files get all points, and how many
mistakes lose some. Names the others, but for those in `not_asked.txt`: they differ in what the judge does not ask.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from classroom.judge.jail import Jail
from classroom.judge.judge import Judge, PhaseSession
from classroom.judge.settings import JudgeSettings
from classroom.judge.worker import SubmissionDir
from tests.judge.files import fair_texts, texts_of_mistakes
from tests.mutants.catalog import PHASES

SITUATIONS = 5
SECONDS = 5.0
NOT_ASKED = Path(__file__).with_name("not_asked.txt")


def main() -> None:
    """Run the catalogue."""
    options = _options()
    for phase in options.phases or PHASES:
        judge = Judge(JudgeSettings(options.seed, SITUATIONS, SECONDS, phases=(phase,)), Jail())
        both = (
            thinned(texts, options.every, options.offset) for texts in (fair_texts(phase), texts_of_mistakes(phase))
        )
        fair, mistakes = both
        unfair = [name for name, text in fair.items() if loses(judge, phase, text)]
        asked = mistakes.keys() - {name for number, name in not_asked() if number == phase}
        missed = [name for name in mistakes if name in asked and not loses(judge, phase, mistakes[name])]
        print(f"phase {phase}: {len(fair) - len(unfair)} of {len(fair)} fair files get all points, ", end="")
        print(f"{len(asked) - len(missed)} of {len(asked)} mistakes lose some; ", end="")
        print(f"{len(mistakes) - len(asked)} more are about what it does not ask", flush=True)
        for verdict, names in (("unfair to", unfair), ("does not see", missed)):
            for name in names:
                print(f"    {verdict}: {name}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.judge", description=__doc__)
    parser.add_argument("every", type=int, nargs="?", default=1, help="take every so many-th (default: all)")
    parser.add_argument("offset", type=int, nargs="?", default=0, help="start with this one")
    parser.add_argument("--phase", type=int, action="append", choices=PHASES, dest="phases", help="only this phase")
    parser.add_argument("--seed", default="catalogue", help="which situations")
    return parser.parse_args()


def not_asked() -> list[tuple[int, str]]:
    """Return (phase, name) of each mistake that shows in no answer. The file says why."""
    lines = (line.partition(": ") for line in NOT_ASKED.read_text(encoding="utf-8").splitlines())
    return [(int(phase), name) for phase, _, name in lines if phase.isdigit()]


def thinned(texts: Mapping[str, str], every: int, offset: int = 0) -> dict[str, str]:
    return dict(list(texts.items())[offset::every])


def loses(judge: Judge, phase: int, text: str) -> bool:
    """Return whether a file loses points in its phase. Stops at the first situation that goes wrong."""
    with SubmissionDir({phase: text.encode()}, judge.jail) as submission_dir:
        session = PhaseSession(judge, phase, submission_dir, float("inf"))
        try:
            return any(
                session.play(judge.situation(group, number)).status != "right"
                for number in range(judge.settings.situations)
                for group in judge.groups
            )
        finally:
            session.close()


if __name__ == "__main__":
    main()
