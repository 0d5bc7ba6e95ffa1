"""Draws vivas of fair alternatives, and counts how often the best guess of each kind would be right.

`python -m tests.viva.trial [LINEUPS]` prints these counts, both for somebody without the code and for somebody with it.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from mini_vllm_labs.viva.files import PHASES, Files
from mini_vllm_labs.viva.make_sheet import drawn, make_sheet
from mini_vllm_labs.viva.questions import Facts, all_candidates, features, gather
from mini_vllm_labs.viva.runs import RunPlayer
from mini_vllm_labs.viva.sheet import Sheet, VivaQuestion
from tests.grading.checkout import solution
from tests.judge.files import fair_texts

MOST = 0.4
NUM_DRAWS, NUM_RUNS = 30, 6
OF_THE_RUN = re.compile(r"\bstep \d+\b|\br\d+\b")


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


def facts_of(files: Files, seed: int) -> Facts:
    with RunPlayer(seed, 8) as player:
        return gather(files, player.play(files, watched=True), player, Random(0))


def best_guesses(questions: Sequence[VivaQuestion]) -> dict[str, tuple[int, int, float]]:
    """For each kind, return the numbers of questions and of distinct correct answers, and the best guess's hit rate.

    The best guess is the most frequent answer or, in a multiple-choice question, the option that stands out most or
    least.
    """
    kinds: dict[str, list[VivaQuestion]] = defaultdict(list)
    for question in questions:
        kinds[question.kind].append(question)
    return {kind: best_guess(found) for kind, found in sorted(kinds.items())}


def best_guess(found: Sequence[VivaQuestion]) -> tuple[int, int, float]:
    right, rng = Counter(one.right for one in found), Random(0)
    hits = [right.most_common(1)[0][1]]
    if found[0].options:
        shown = [[features(option, one.options) for option in one.options] for one in found]
        for place in range(len(shown[0][0])):
            for best in (min, max):
                guesses = [best(range(len(one)), key=lambda at: (one[at][place], rng.random())) for one in shown]
                hits.append(sum(guess + 1 == one.right for guess, one in zip(guesses, found, strict=True)))
    return len(found), len(right), max(hits) / len(found)


def num_guessable(questions: Sequence[VivaQuestion]) -> int:
    """Return how many questions belong to a kind in which the best guess is right more often than `MOST`."""
    return sum(total for total, _, share in best_guesses(questions).values() if share > MOST)


def hits_from_other_runs(runs: Mapping[int, Facts]) -> dict[str, float]:
    """Return how often guessing from other runs of the same code is right, keyed by kind and "all".

    The guess is the most frequent answer to the same question about the same lines or, if there was no such question,
    to any question of this kind.
    """
    candidates = {seed: all_candidates(facts, Random(seed)) for seed, facts in runs.items()}
    asked, hits = Counter[str](), Counter[str]()
    for seed, kinds in candidates.items():
        known: dict[str, Counter[int | str]] = defaultdict(Counter)
        for question in (one for other, all_of in candidates.items() if other != seed for of in all_of for one in of):
            known[OF_THE_RUN.sub("", question.text)][answer_of(question)] += 1
            known[question.kind][answer_of(question)] += 1
        for question in (one for draw in range(NUM_DRAWS) for one in drawn(kinds, Random(f"{seed} {draw}"))):
            counts = known.get(OF_THE_RUN.sub("", question.text)) or known[question.kind]
            possible = question.options or list(counts)
            guess = max(possible, key=lambda one: counts[one])
            for name in (question.kind, "all"):
                asked[name] += 1
                hits[name] += guess == answer_of(question)
    return {name: hits[name] / total for name, total in asked.items()}


def answer_of(question: VivaQuestion) -> int | str:
    """Return the correct number, or the text of the correct option, whose position is drawn at random."""
    return question.options[question.right - 1] if question.options else question.right


def main(count: int) -> int:
    found = list[VivaQuestion]()
    for number, (name, sheet) in enumerate(sheets(count), start=1):
        found += sheet.questions
        print(f"{number:3} {len(sheet.questions)} questions  {name}", flush=True)
    files = Files({phase: solution(phase) for phase in PHASES})
    others = hits_from_other_runs({seed: facts_of(files, seed) for seed in range(NUM_RUNS)})
    print(f"\n{'kind':12}{'questions':>10}{'answers':>9}{'best guess':>12}{'with other runs':>17}")
    for kind, (total, different, share) in best_guesses(found).items():
        print(f"{kind:12}{total:10}{different:9}{share:12.0%}{others.get(kind, 0):17.0%}")
    guessable = num_guessable(found)
    print(f"\n{guessable} of {len(found)} questions are of a kind that a guess hits in more than 40%.")
    print(f"With the code and {NUM_RUNS - 1} of its other runs, a guess hits {others['all']:.0%}.")
    return int(guessable > len(found) / 20)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 60))
