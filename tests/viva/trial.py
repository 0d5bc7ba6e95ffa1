"""Draws vivas of fair alternatives, and counts how often the best guess of each kind would be right."""

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
