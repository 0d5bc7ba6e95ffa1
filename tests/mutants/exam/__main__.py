"""`python -m tests.mutants.exam --phase N` writes an exam of a phase, and its answers to a separate file."""

import argparse
import sys
from pathlib import Path

from tests.mutants.catalog import ROOT
from tests.mutants.exam.bank import LETTERS, PHASES, Question, exam

INTRODUCTION = """\
Each piece of code has one mistake; `...` stands for lines that are right and not shown. Below it is what a run of \
this code (`yours`) does otherwise than the rules say (`expected`). Which sentence says what the code does wrong?
"""


def main() -> None:
    """Write `build/exam/`: questions to print, and an answer sheet that stays with the teacher."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.exam", description=__doc__)
    parser.add_argument("--phase", type=int, required=True, choices=PHASES)
    parser.add_argument("--seed", type=int, default=0, help="another seed, another exam (default: 0)")
    parser.add_argument("--questions", type=int, default=10, metavar="K", help="how many (default: 10)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "exam")
    options = parser.parse_args()
    try:
        questions = exam(options.phase, options.seed, options.questions)
        options.folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    title = f"Phase {options.phase}, exam {options.seed}"
    for ending, text in (("", sheet(title, questions)), ("-answers", answers(title, questions))):
        path = options.folder / f"phase{options.phase}-seed{options.seed}{ending}.md"
        path.write_text(text, encoding="utf-8")
        print(path)


def sheet(title: str, questions: list[Question]) -> str:
    """Return the exam as Markdown."""
    parts = [f"# {title}", INTRODUCTION]
    for number, one in enumerate(questions, start=1):
        parts += [f"## Question {number}", fenced(one.code, "python"), fenced(one.run)]
        parts += ["\n".join(f"- {letter}. {text}" for letter, text in zip(LETTERS, one.options, strict=True))]
    return "\n\n".join(parts) + "\n"


def answers(title: str, questions: list[Question]) -> str:
    """Return the correct options' letters, each with its sentence and the hint that the graded tests give."""
    lines = [
        f"{n}. **{LETTERS[one.right]}**: {one.options[one.right]}. {one.hint}" for n, one in enumerate(questions, 1)
    ]
    return f"# {title}: answers\n\n" + "\n".join(lines) + "\n"


def fenced(lines: list[str], language: str = "") -> str:
    return "\n".join([f"```{language}", *lines, "```"])


if __name__ == "__main__":
    main()
