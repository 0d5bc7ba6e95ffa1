"""Measures the skills of the embedded model.

`python -m mini_vllm_labs.upkeep.tiny_model.evaluate [MODEL]` prints how many of 40 answers per skill are right.

`--write` writes the table into the model's README.
"""

import argparse
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mini_vllm import LLM, SamplingParams
from mini_vllm.core.tokenizer import Message
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm_labs.upkeep.tiny_model.corpus import Turn, copy_words, fact, notes, record, small_sum

NUM_QUESTIONS = 40
SEED = 99
TABLE = re.compile(r"\n\| it can \|.*", re.DOTALL)


def exam() -> Iterator[tuple[str, list[tuple[list[Message], str]]]]:
    """Yield each skill with its conversations and right answers, drawn with a seed that was not used in training."""
    rng = random.Random(SEED)
    for skill, kind in (
        ("answer a fact", fact),
        ("do a small sum", small_sum),
        ("write a given record as JSON", record),
        ("copy a list of words", copy_words),
    ):
        yield skill, [_conversation(kind(rng)) for _ in range(NUM_QUESTIONS)]
    for count in (4, 16):
        drawn = [notes(rng, count) for _ in range(NUM_QUESTIONS)]
        skill = f"answer from {count} notes in its prompt"
        yield skill, [_conversation(rng.choice(turns), system) for system, turns in drawn]


def _conversation(turn: Turn, system: str | None = None) -> tuple[list[Message], str]:
    question, answer = turn
    head: list[Message] = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": question}], answer


def grade(llm: LLM) -> dict[str, int]:
    """Return how many answers are exactly right for each skill."""
    right = {}
    for skill, questions in exam():
        outputs = llm.chat([messages for messages, _ in questions], SamplingParams(max_tokens=120))
        answers = [output.outputs[0].text.strip() for output in outputs]
        right[skill] = sum(given == answer for given, (_, answer) in zip(answers, questions, strict=True))
    return right


def as_table(right: dict[str, int]) -> str:
    rows = [f"| {skill} | {count} |" for skill, count in right.items()]
    return "\n".join([f"\n| it can | right of {NUM_QUESTIONS} |", "|---|---|", *rows]) + "\n"


def print_table(description: str | None, default: Path, make: Callable[[Path], str], head: re.Pattern[str]) -> None:
    """Print the table of the model named on the command line; with `--write`, append it to the README."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", nargs="?", type=Path, default=default)
    parser.add_argument("--write", action="store_true", help="put the table into the model's README")
    arguments = parser.parse_args()
    table = make(arguments.model)
    print(table)
    if arguments.write:
        readme = arguments.model / "README.md"
        readme.write_text(head.sub("", readme.read_text(encoding="utf-8")) + table, encoding="utf-8")


if __name__ == "__main__":
    print_table(__doc__, EMBEDDED_MODEL, lambda model: as_table(grade(LLM(str(model)))), TABLE)
