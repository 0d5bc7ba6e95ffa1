"""Graded tests of task 4.1."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from course.labtest.support import expect_equal

NONE_SO_FAR: tuple[str | None, ...] = (None, None)


def test_hash_is_bytes_and_repeats(phase4: ModuleType) -> None:
    digest = phase4.hash_block(phase4.ROOT_HASH, [1, 2, 3, 4], ("salt", None))
    expect_equal(
        f"{len(digest)} {type(digest).__name__}" if isinstance(digest, bytes) else f"a {type(digest).__name__}",
        "32 bytes",
        rule="hash_block returns the 32 bytes of a SHA-256: the next block takes them as its parent_hash.",
        situation="hash_block(ROOT_HASH, [1, 2, 3, 4], ('salt', None))",
        hint="which method of a hashlib object gives the hash as bytes, and not as text?",
    )
    expect_equal(
        phase4.hash_block(phase4.ROOT_HASH, (1, 2, 3, 4), ["salt", None]).hex(),
        digest.hex(),
        rule="The same content has the same hash, whatever sequence type it comes in.",
        situation="first call: tokens as a list, keys as a tuple; second call: the other way round",
        hint="do you hash the numbers, or how Python prints the sequence?",
    )


@pytest.mark.parametrize(
    ("what", "one", "other"),
    [
        ("the last token", ([1, 2, 3], ()), ([1, 2, 4], ())),
        ("the first token", ([1, 2, 3], ()), ([9, 2, 3], ())),
        ("the order of the tokens", ([1, 2, 3], ()), ([3, 2, 1], ())),
        ("where one token ends and the next begins", ([1, 23], ()), ([12, 3], ())),
        ("tokens over 255", ([256, 1], ()), ([0, 1], ())),
        ("tokens over 65535", ([65_537, 1], ()), ([1, 1], ())),
        ("the number of tokens", ([1, 2, 0], ()), ([1, 2], ())),
        ("the salt", ([1, 2], ("a", None)), ([1, 2], ("b", None))),
        ("whether there is a salt", ([1, 2], ("a", None)), ([1, 2], NONE_SO_FAR)),
        ("an empty salt", ([1, 2], ("", None)), ([1, 2], NONE_SO_FAR)),
        ("the adapter", ([1, 2], (None, "a")), ([1, 2], (None, "b"))),
        ("whether there is an adapter", ([1, 2], (None, "a")), ([1, 2], NONE_SO_FAR)),
        ("which of the extra keys it is", ([1, 2], ("a", None)), ([1, 2], (None, "a"))),
        ("where one extra key ends and the next begins", ([1, 2], ("ab", "c")), ([1, 2], ("a", "bc"))),
        ("the tokens beside a salt", ([1, 2], ("a", None)), ([1, 3], ("a", None))),
        ("the adapter beside a salt", ([1, 2], ("a", "b")), ([1, 2], ("a", None))),
    ],
)
def test_hash_depends_on(
    phase4: ModuleType,
    what: str,
    one: tuple[list[int], tuple[str | None, ...]],
    other: tuple[list[int], tuple[str | None, ...]],
) -> None:
    first, second = (phase4.hash_block(phase4.ROOT_HASH, tokens, keys) for tokens, keys in (one, other))
    expect_equal(
        "equal" if first == second else "different",
        "different",
        rule=f"The hash of a block depends on {what}.",
        situation=f"hash_block(ROOT_HASH, {one[0]}, {one[1]})\nhash_block(ROOT_HASH, {other[0]}, {other[1]})",
        hint="which bytes of yours differ between these two blocks?",
    )


def test_no_two_contents_have_one_hash(phase4: ModuleType) -> None:
    numbers = (0, 1, 2, 10, 255, 256, 257, 65_535, 65_536, 2**31)
    contents = [list(tokens) for length in (1, 2, 3) for tokens in product(numbers, repeat=length)]
    first_with: dict[bytes, list[int]] = {}
    for tokens in contents:
        other = first_with.setdefault(phase4.hash_block(phase4.ROOT_HASH, tokens), tokens)
        expect_equal(
            other,
            tokens,
            rule="Blocks with different tokens have different hashes. (Compared: the first block with this hash.)",
            situation=f"hash_block(ROOT_HASH, tokens) gives the same for {other} and {tokens}",
            hint="can the tokens be read back from the bytes that you hash?",
        )


def test_hash_depends_on_the_parent(phase4: ModuleType) -> None:
    root = phase4.ROOT_HASH
    parents = [root, phase4.hash_block(root, [1, 2]), phase4.hash_block(root, [1, 3])]
    plain = {phase4.hash_block(parent, [5, 6]) for parent in parents}
    salted = {phase4.hash_block(parent, [5, 6], ("a", None)) for parent in parents}
    expect_equal(
        [len(plain), len(salted), len(plain | salted)],
        [3, 3, 6],
        rule="The hash of a block depends on its parent's hash, with extra keys and without.",
        situation="block [5, 6] behind three parents, without extra keys and with salt 'a'; counted: different hashes",
        hint="K and V of a token depend on all tokens before it: where do those come into the hash?",
    )


def test_hash_is_the_same_in_every_process(phase4: ModuleType) -> None:
    keys = [("salt", None), (None, "adapter"), *((f"salt {n}", f"adapter {n}") for n in range(9))]
    calls = f"[f(bytes(32), [1, 2, 3]), *(f(bytes(range(32)), [70000, 2], keys) for keys in {keys})]"
    here = [digest.hex() for digest in eval(calls, {"f": phase4.hash_block})]
    source = f"f = runpy.run_path({str(phase4.__file__)!r})['hash_block']"
    script = f"import runpy; {source}; print(*[d.hex() for d in {calls}])"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    other = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    same = sum(one == two for one, two in zip(here, other.stdout.split(), strict=False))
    expect_equal(
        f"{same} of {len(here)} hashes are the same",
        f"{len(here)} of {len(here)} hashes are the same",
        rule="A block has the same hash in every process and on every day.",
        situation=f"blocks with keys and without, hashed here and in another Python process\n{other.stderr[-300:]}",
        hint="which functions of Python give other values after a restart?",
    )
