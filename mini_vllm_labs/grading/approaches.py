"""Other fair ways to write a task, sealed until the task passes.

`approaches/phaseN.json` has one text per task, enciphered with a key derived from the task's tests and the reference's
answers. Opening or searching the files reveals nothing, nor does rotating their letters, and their code cannot be
imported. This is a seal rather than a lock: the course includes the recorded answers, so calling `unsealed` reveals an
unsolved task. Commands that show an approach first grade the task.
"""

import base64
import json
import zlib
from dataclasses import dataclass
from hashlib import sha256, shake_256
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan

FOLDER = Path(__file__).with_name("approaches")
ANSWERS = CHECKOUT / "mini_vllm_labs" / "grading" / "labtest" / "recorded_answers"


@dataclass(frozen=True)
class Approach:
    """A fair alternative: its name, its cost or gain in a sentence, and its code."""

    name: str
    cost: str
    code: str


def sealed(task: str, found: list[Approach]) -> str:
    """Return the approaches to a task such as "1.2" as a text that `unsealed` can read."""
    plain = zlib.compress(json.dumps([vars(one) for one in found]).encode(), 9)
    return base64.b85encode(enciphered(plain, key_of(task))).decode()


def unsealed(task: str) -> list[Approach]:
    """Return the approaches to a task; the list may be empty. Raises `ValueError` if the tests have changed."""
    path = FOLDER / f"phase{task.partition('.')[0]}.json"
    texts: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if task not in texts:
        return []
    try:
        plain = zlib.decompress(enciphered(base64.b85decode(texts[task]), key_of(task)))
    except zlib.error:
        raise ValueError(
            f"the approaches for task {task} were sealed against different tests: labs/ or mini_vllm_labs/ has "
            "changed since"
        ) from None
    return [Approach(**one) for one in json.loads(plain)]


def key_of(task: str) -> bytes:
    """Return the key of a task: a digest of its tests and of the reference's answers to them."""
    phase, number = task_named(task)
    tests = phase.tasks[number - 1].tests
    answers: dict[str, object] = {}
    for path in (ANSWERS / f"phase{phase.number}.json", ANSWERS / f"phase{phase.number}_in_an_engine.json"):
        answers |= json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return sha256(json.dumps([task, [(test, answers.get(test)) for test in sorted(tests)]]).encode()).digest()


def enciphered(text: bytes, key: bytes) -> bytes:
    """Encipher or decipher `text`; both are the same XOR with a stream of bytes derived from the key."""
    stream = shake_256(key).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, stream, strict=True))


def task_named(task: str) -> tuple[PlannedPhase, int]:
    """Return the phase and number of a task such as "1.2". Raises `ValueError` if the task does not exist."""
    tasks = {f"{phase.number}.{one.number}": (phase, one.number) for phase in load_whole_plan() for one in phase.tasks}
    if task not in tasks:
        raise ValueError(f"unknown task {task}; the tasks are {', '.join(tasks)}")
    return tasks[task]
