"""`python -m tests.viva [LINEUPS]`: are vivas of fair alternatives valid, and can their answers be guessed?"""

import sys

from tests.viva.trial import best_guesses, num_guessable, sheets


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
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 20))
