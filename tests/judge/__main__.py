"""`python -m tests.judge [EVERY] [OFFSET] [--phase N]` judges the catalogued mistakes and fair alternatives.

Takes every EVERY-th entry, starting at OFFSET. Prints for each phase how many fair files get all points and how many
mistakes lose some, and names the exceptions. The whole catalogue takes 15 to 20 CPU minutes: the situations run in
forks of this process, without a jail.
"""

import argparse
import os
from collections.abc import Mapping

from mini_vllm_labs.classroom.judge.groups import TestGroup
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.judge import PHASES_WITH_TENSORS, Judge
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from tests.judge.files import fair_texts, texts_of_mistakes
from tests.judge.forked import first_wrong
from tests.mutants.catalog import PHASES

SITUATIONS = 5
SECONDS = 5.0
Key = tuple[TestGroup, int]


def main() -> None:
    """Run the catalogue."""
    options = _options()
    os.environ["OMP_NUM_THREADS"] = "1"  # torch's threads do not survive a fork
    for phase in options.phases or PHASES:
        judge, lately = Judge(JudgeSettings(options.seed, SITUATIONS, SECONDS, phases=(phase,)), Jail()), list[Key]()
        judge.draw((phase,))
        both = (
            thinned(texts, options.every, options.offset) for texts in (fair_texts(phase), texts_of_mistakes(phase))
        )
        fair, mistakes = both
        unfair = [name for name, text in fair.items() if loses(judge, phase, text)]
        missed = [name for name, text in mistakes.items() if not loses(judge, phase, text, lately)]
        print(f"phase {phase}: {len(fair) - len(unfair)} of {len(fair)} fair files get all points, ", end="")
        print(f"{len(mistakes) - len(missed)} of {len(mistakes)} mistakes lose some", flush=True)
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


def thinned(texts: Mapping[str, str], every: int, offset: int = 0) -> dict[str, str]:
    return dict(list(texts.items())[offset::every])


def loses(judge: Judge, phase: int, text: str, lately: list[Key] | None = None) -> bool:
    """Return whether a file loses points in its phase. Stops at the first wrong situation.

    Situations in `lately` are tried first, most recent first, because neighbouring files in the catalogue break the
    same function.
    """
    lately = [] if lately is None else lately
    every = [(group, number) for group in judge.groups for number in range(len(judge.questions(group)))]
    every.sort(key=lambda key: key[1])
    keys = [*lately, *(key for key in every if key not in lately)]
    # Works like the judge, which uses a fresh process for each situation; with torch, however, all situations that
    # succeed share one process.
    for batch in [keys] if phase in PHASES_WITH_TENSORS else [[key] for key in keys]:
        wrong = first_wrong(phase, text, [judge.questions(group)[number] for group, number in batch])
        if wrong is not None:
            lately[:] = [batch[wrong], *(key for key in lately if key != batch[wrong])]
            return True
    return False


if __name__ == "__main__":
    main()
