"""The known mistakes and the fair ways to write a phase, unlocked only by the answers that correct code gives.

`known_mistakes/phaseN.json` is enciphered. The file's key is derived from the answers to randomly drawn cases of the
graded tests' tables, and no file contains these answers. So only somebody who has written the phase can open the file.
`python -m tests.mutants.known` locks the file.
"""

import base64
import json
import lzma
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from numbers import Rational
from pathlib import Path
from random import Random
from types import ModuleType

from mini_vllm_labs.grading.approaches import enciphered
from mini_vllm_labs.grading.labtest import case_table

FOLDER = Path(__file__).with_name("known_mistakes")
NUM_LOCKS = 5  # one task is enough, so that a single unusual answer does not lock anybody out
CASES_PER_TASK = 6


@dataclass(frozen=True)
class KnownMistakes:
    """The text of the reference, the mistakes as (broken rule, text), and the fair ways as (name, text)."""

    reference: str
    mistakes: list[tuple[str, str]]
    fair: list[tuple[str, str]]


def locked(known: KnownMistakes, keys: Iterable[bytes]) -> str:
    """Return the content of a file that any one of the keys opens."""
    plain = lzma.compress(json.dumps(vars(known)).encode())
    inner = sha256(plain).digest()
    locks = [base64.b85encode(enciphered(inner, key)).decode() for key in keys]
    content = base64.b85encode(enciphered(plain, inner)).decode()
    return json.dumps({"locks": locks, "content": content}, indent=1) + "\n"


def inner_key(phase: int, keys: Iterable[bytes]) -> bytes:
    """Return the key to a file's content, or empty bytes if no key opens its lock."""
    locks, content = read(phase)
    for lock, key in zip(locks, keys, strict=False):
        inner = enciphered(lock, key)
        if sha256(enciphered(content, inner)).digest() == inner:
            return inner
    return b""


def unlocked(phase: int, inner: bytes) -> KnownMistakes:
    """Open a phase's file. Raises `ValueError` if there is no key, because the answers were wrong."""
    if not inner:
        raise ValueError(
            f"the known mistakes in phase {phase} can be opened once your phase passes: run mini-vllm grade "
            f"--phase {phase}"
        )
    known = json.loads(lzma.decompress(enciphered(read(phase)[1], inner)))
    pairs = {name: [(first, text) for first, text in known[name]] for name in ("mistakes", "fair")}
    return KnownMistakes(known["reference"], **pairs)


def read(phase: int) -> tuple[list[bytes], bytes]:
    """Return the locks and the enciphered content of a phase's file."""
    found = json.loads((FOLDER / f"phase{phase}.json").read_text(encoding="utf-8"))
    return [base64.b85decode(lock) for lock in found["locks"]], base64.b85decode(found["content"])


def keys_of(phase: int, module: ModuleType) -> Iterator[bytes]:
    """Yield a key for each lock: a digest of a module's answers to cases that no graded test contains."""
    plays = import_module(f"mini_vllm_labs.grading.plays.phase{phase}_plays")
    tables = tomllib.loads(Path(case_table.__file__).with_name(f"phase{phase}.toml").read_text(encoding="utf-8"))
    for lock in range(NUM_LOCKS):
        rng, seen = Random(f"lock {lock}"), list[object]()
        for number in (int(name) for name in tables if name.isdecimal()):
            play = getattr(plays, case_table.groups(plays, number)[0]["play"])
            for given in [plays.random_case(rng, number) for _ in range(CASES_PER_TASK)]:
                try:
                    seen.append([plain(one) for one in case_table.steps_of(play(module, *given), [])])
                except Exception as error:
                    seen.append(type(error).__name__)
        yield sha256(json.dumps(seen, sort_keys=True).encode()).digest()


def plain(value: object) -> object:
    """Return an answer as JSON; equal answers give the same JSON. Fractional digits of numbers are dropped, because
    they vary."""
    match value:
        case None | str():
            return value
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case float() if value.is_integer():
            return int(value)
        case Rational() if value.denominator == 1:
            return int(value.numerator)
    return "other"
