"""`python -m tests.judge [EVERY]`: the judge on the catalogue of mistakes and fair alternatives, every so many-th.

Prints for each phase how many fair files get all points, and how many mistakes lose some. Names the others.
"""

import sys
from collections.abc import Mapping

from mini_vllm.judge.jail import Jail
from mini_vllm.judge.judge import Judge
from mini_vllm.judge.submission import Submission
from tests.grading.checkout import PHASES
from tests.judge.files import fair_texts, texts_of_mistakes

SITUATIONS = 5
SECONDS = 5.0


def main(every: int) -> None:
    """Run the catalogue."""
    for phase in PHASES:
        judge = Judge("catalogue", Jail(), SITUATIONS, SECONDS, phases=[phase])
        fair, mistakes = (thinned(texts, every) for texts in (fair_texts(phase), texts_of_mistakes(phase)))
        unfair = [name for name, text in fair.items() if lost(judge, phase, text)]
        missed = [name for name, text in mistakes.items() if not lost(judge, phase, text)]
        print(f"phase {phase}: {len(fair) - len(unfair)} of {len(fair)} fair files get all points, ", end="")
        print(f"{len(mistakes) - len(missed)} of {len(mistakes)} mistakes lose some", flush=True)
        for verdict, names in (("unfair to", unfair), ("does not see", missed)):
            for name in names:
                print(f"    {verdict}: {name}", flush=True)


def thinned(texts: Mapping[str, str], every: int) -> dict[str, str]:
    """Return every so many-th text."""
    return dict(list(texts.items())[::every])


def lost(judge: Judge, phase: int, text: str) -> float:
    """Return how many points a file loses in its phase."""
    (graded,) = judge.grade(Submission("catalogue", {phase: text.encode()})).phases
    return graded.max_points - graded.points


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
