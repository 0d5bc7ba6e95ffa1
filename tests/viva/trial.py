"""Draws vivas of fair alternatives, and counts how often the best guess of each kind would be right.

`python -m tests.viva.trial [LINEUPS]` prints this.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from mini_vllm_labs.viva.drawing import make_sheet
from mini_vllm_labs.viva.files import PHASES, Files
from mini_vllm_labs.viva.sheet import Sheet
from tests.grading.checkout import solution
from tests.judge.files import fair_texts

MOST = 0.4


def lineups(count: int, seed: int = 0) -> Iterator[tuple[str, Files]]:
    """Yield lineups of five phases, two of which are fair alternatives."""
    rng = Random(seed)
    for _ in range(count):
        texts = {phase: solution(phase) for phase in PHASES}
        names = []
        for phase in sorted(rng.sample(PHASES, 2)):
            name, texts[phase] = rng.choice(sorted(fair_texts(phase).items()))
            names.append(f"{phase}: {name}")
        yield "; ".join(names), Files(texts)


def sheets(count: int, seed: int = 0) -> Iterator[tuple[str, Sheet]]:
    for number, (name, files) in enumerate(lineups(count, seed)):
        yield name, make_sheet(files, seed + number)


def best_guesses(found: Sequence[Sheet]) -> dict[str, tuple[int, int, float]]:
    """Return for each kind its questions, its different right answers, and the share of the most frequent one."""
    answers: dict[str, list[int]] = {}
    for question in (question for sheet in found for question in sheet.questions):
        answers.setdefault(question.kind, []).append(question.right)
    return {
        kind: (len(right), len(set(right)), Counter(right).most_common(1)[0][1] / len(right))
        for kind, right in sorted(answers.items())
    }


def num_guessable(found: Sequence[Sheet]) -> int:
    """Return the number of questions whose kind has an answer that is right in more than `MOST` of them."""
    return sum(total for total, _, share in best_guesses(found).values() if share > MOST)


def main(count: int) -> int:
    found = []
    for name, sheet in sheets(count):
        found.append(sheet)
        print(f"{len(found):3} {len(sheet.questions)} questions  {name}", flush=True)
    print(f"\n{'kind':12}{'questions':>10}{'answers':>9}{'most frequent':>15}")
    for kind, (total, different, share) in best_guesses(found).items():
        print(f"{kind:12}{total:10}{different:9}{share:15.0%}")
    total, guessable = sum(len(sheet.questions) for sheet in found), num_guessable(found)
    print(f"\n{guessable} of {total} questions have an answer that guesses hit in more than 40%.")
    return int(guessable > total / 20)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 60))
