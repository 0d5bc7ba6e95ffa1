"""Graded tests of task 4.1."""

from contextlib import suppress
from itertools import product
from types import ModuleType

import pytest

from course.labtest.expect import expect_equal
from course.labtest.phase4.cases import hash_of, pairs_with_equal_lengths
from course.labtest.phase4.other_process import hashes_elsewhere

NO_KEYS: tuple[str | None, ...] = (None, None)
VOCABULARIES = (31, 33, 37, 131, 256, 257, 1000, 1024, 4096, 10_000, 32_000, 32_768, 50_257, 65_536, 65_537, 99_991)
MARKS = (*" ,|:;/-_.=+()[]", "\n", "\t", "\0", "\1", "\2", "\x1f", '"', "'")
SEPARATORS = ("', '", '", "', "','", '","', "None", " | ", " - ", "|||", "###", "::=")
# Texts that an encoding, a normal form or a cut makes equal.
ALIKE = (
    *(
        "山",
        "川",
        "é",
        "e\u0301",
        "ﬁ",
        "fi",
        "ß",
        "ss",
        "07",
        "7",
        "\N{ARABIC-INDIC DIGIT SEVEN}",
        "\U0001f600",
        "\U0001f601",
        "\uf600",  # the lower 16 bits of the one
        "\U00010061",  # and of an a
        "\u0161",  # which has the lower 8 bits of this one, too
    ),
    *("x" * 64 + "1", "x" * 64 + "2", "x" * 300 + "1", "x" * 300 + "2"),
)
LARGE_VOCABULARIES = (100_000, 100_003, 128_000, 128_256, 131_072, 151_936, 2**20, 1_000_003, 2**30, 2**31 - 1)


def test_hash_is_32_bytes_and_repeats(phase4: ModuleType) -> None:
    token_ids, keys = [4, 1, 3, 2], ["salt", None]
    digest = hash_of(phase4, phase4.ROOT_HASH, token_ids, keys)
    expect_equal(
        f"{len(digest)} {type(digest).__name__}" if isinstance(digest, bytes) else f"a {type(digest).__name__}",
        "32 bytes",
        rule="hash_block returns the 32 bytes of a SHA-256: the next block takes them as its parent_hash.",
        situation="hash_block(ROOT_HASH, [4, 1, 3, 2], ['salt', None])",
        hint="how many bytes has the hash that you call, and how many do you return?"
        if isinstance(digest, bytes)
        else "which method of a hashlib object returns the hash as bytes, and which one as text?",
    )
    expect_equal(
        hash_of(phase4, phase4.ROOT_HASH, (4, 1, 3, 2), ("salt", None)).hex(),
        digest.hex(),
        rule="The same content has the same hash, whatever sequence type holds it.",
        situation="first call: tokens and keys as lists; second call: as tuples",
        hint="what goes into your bytes beside the numbers and texts themselves?",
    )
    expect_equal(
        (token_ids, keys),
        ([4, 1, 3, 2], ["salt", None]),
        rule="hash_block leaves the lists that it is given as they are.",
        situation="hash_block(ROOT_HASH, token_ids, keys); compared: token_ids and keys after the call",
        hint="which of your lines changes a list in place?",
    )


def test_equal_texts_and_numbers_need_not_be_the_same_object(phase4: ModuleType) -> None:
    salt, token = "salt", 70_000
    one = hash_of(phase4, phase4.ROOT_HASH, [token, token], (salt, salt))
    other = hash_of(phase4, phase4.ROOT_HASH, [int("70000"), int("70000")], ("".join("salt"), "".join("salt")))
    expect_equal(
        other.hex(),
        one.hex(),
        rule="Equal contents have equal hashes. Whether a text or a number is one object in memory or two does not "
        "matter: each request brings its own.",
        situation="hash_block(ROOT_HASH, [70000, 70000], ('salt', 'salt')), first with one object twice, then with two",
        hint="do your bytes come from the texts and numbers alone? What else does your conversion write down?",
    )


def test_every_bit_of_a_hash_varies(phase4: ModuleType) -> None:
    digests = [hash_of(phase4, phase4.ROOT_HASH, list(tokens)) for tokens in product(range(2), repeat=6)]
    parts = [{digest[at : at + 4] for at in range(0, 32, 4)} for digest in digests]
    numbers = [int.from_bytes(digest, "big") for digest in digests]
    sums = numbers[0] ^ numbers[1] ^ numbers[2] ^ numbers[3]  # 0 in a checksum: the tokens of the four cancel out
    expect_equal(
        {
            "digests with equal parts of 4 bytes": sum(len(part) < 8 for part in parts),
            "digests with a part of zeros": sum(bytes(4) in part for part in parts),
            "bits that are the same in all digests": sum(
                len({n >> bit & 1 for n in numbers}) == 1 for bit in range(256)
            ),
            "a sum of four digests has a part of zeros": 0 in [sums >> 32 * at & 2**32 - 1 for at in range(8)],
        },
        {
            "digests with equal parts of 4 bytes": 0,
            "digests with a part of zeros": 0,
            "bits that are the same in all digests": 0,
            "a sum of four digests has a part of zeros": False,
        },
        rule="All 32 bytes come from one SHA-256 (or a hash as strong). Nothing compares tokens after a match: two "
        "blocks with one hash would share K and V.",
        situation="64 blocks of 6 tokens, each 0 or 1",
        hint="how many bytes has the hash that you call, and do you repeat, pad or cut it?"
        if len({*digests}) == len(digests)
        else f"these 64 blocks have {len({*digests})} different hashes: can the tokens be read back from your bytes?",
    )


def test_the_order_of_blocks_counts(phase4: ModuleType) -> None:
    def chain(*blocks: list[int]) -> str:
        digest: bytes = phase4.ROOT_HASH
        for tokens in blocks:
            digest = hash_of(phase4, digest, tokens)
        return digest.hex()

    one, two, three = [1, 2], [3, 4], [5, 6]
    orders = [chain(*order) for order in ((one, two, three), (two, one, three), (one, three, two), (three, two, one))]
    expect_equal(
        f"{len(set(orders))} different hashes",
        "4 different hashes",
        rule="Equal blocks in another order are another text: the last hash of the chain differs.",
        situation="the last hash of the blocks [1, 2], [3, 4], [5, 6], hashed one after the other in four orders",
        hint="how does the parent's hash come into yours: could it change its place with the block's own?",
    )


def test_a_salt_that_is_no_valid_text_is_no_other_salt(phase4: ModuleType) -> None:
    hashes = {}
    for salt in ("", "?", "\ufffd", "\ud800", "\ud801"):
        with suppress(UnicodeEncodeError):  # half a surrogate pair may be refused, but not taken for another text
            hashes[f"extra_keys={(salt, None)!r}"] = phase4.hash_block(phase4.ROOT_HASH, [1, 2], (salt, None))
    check_all_different(
        hashes,
        rule="Different extra keys have different hashes, whatever characters are in them: users choose their salts.",
        hint="which bytes does each of these two salts put into what you hash, and can it be read back from them?",
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
        ("whether there is a salt", ([1, 2], ("a", None)), ([1, 2], NO_KEYS)),
        ("an empty salt", ([1, 2], ("", None)), ([1, 2], NO_KEYS)),
        ("the adapter", ([1, 2], (None, "a")), ([1, 2], (None, "b"))),
        ("whether there is an adapter", ([1, 2], (None, "a")), ([1, 2], NO_KEYS)),
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
    first, second = (hash_of(phase4, phase4.ROOT_HASH, tokens, keys) for tokens, keys in (one, other))
    expect_equal(
        "equal" if first == second else "different",
        "different",
        rule=f"The hash of a block depends on {what}.",
        situation=f"hash_block(ROOT_HASH, {one[0]}, {one[1]})\nhash_block(ROOT_HASH, {other[0]}, {other[1]})",
        hint="which bytes of yours differ between these two blocks?",
    )


def check_all_different(hash_of: dict[str, bytes], rule: str, hint: str) -> None:
    """Check that no two of the calls have the same hash."""
    first_with: dict[bytes, str] = {}
    for call, digest in hash_of.items():
        other = first_with.setdefault(digest, call)
        expect_equal(
            "different" if other == call else "equal", "different", rule=rule, situation=[other, call], hint=hint
        )


def test_no_two_blocks_of_tokens_have_one_hash(phase4: ModuleType) -> None:
    numbers = (0, 1, 2, 10, 255, 256, 257, 65_535, 65_536, 2**31)
    blocks = [list(tokens) for length in (1, 2, 3) for tokens in product(numbers, repeat=length)]
    for size in (*VOCABULARIES, *LARGE_VOCABULARIES):  # alike if the tokens are digits of a number to this base
        blocks += [tokens for tokens in ([size, 0], [0, size], [size, 1], [1, size]) if tokens not in blocks]
    check_all_different(
        {f"hash_block(ROOT_HASH, {tokens})": hash_of(phase4, phase4.ROOT_HASH, tokens) for tokens in blocks},
        rule="Blocks with different tokens have different hashes.",
        hint="can the tokens be read back from the bytes that you hash?",
    )


def test_every_token_of_a_block_of_16_counts(phase4: ModuleType) -> None:
    plain = list(range(500, 516))
    blocks = [plain] + [[*plain[:place], 9, *plain[place + 1 :]] for place in range(16)]
    check_all_different(
        {f"hash_block(ROOT_HASH, {tokens})": hash_of(phase4, phase4.ROOT_HASH, tokens) for tokens in blocks},
        rule="The hash of a block depends on every token in it, from the first to the last.",
        hint="how many of the 16 tokens go into your bytes?",
    )


def test_every_byte_of_the_parent_counts(phase4: ModuleType) -> None:
    root = phase4.ROOT_HASH
    parents = [bytes(range(32)), *(bytes([*range(place), 99, *range(place + 1, 32)]) for place in range(32))]
    for keys in ((), ("a", None)):
        check_all_different(
            {f"parent_hash={parent.hex()}, {keys}": hash_of(phase4, parent, [5, 6], keys) for parent in parents},
            rule="The hash of a block depends on its whole parent hash, with extra keys and without.",
            hint="K and V of a token depend on all tokens before it: how does the parent's hash come into yours?",
        )
    expect_equal(
        hash_of(phase4, root, [5, 6]) == hash_of(phase4, hash_of(phase4, root, [5, 6]), [5, 6]),
        False,
        rule="Equal tokens after a different parent have a different hash.",
        situation="block [5, 6] at the beginning, and behind another block [5, 6]",
        hint="K and V of a token depend on all tokens before it: how does the parent's hash come into yours?",
    )


def test_extra_keys_never_run_together(phase4: ModuleType) -> None:
    words: list[str | None] = [
        None,
        "",
        "a",
        "b",
        "ab",
        "None",
        "null",
        "0",
        "-",
        " ",
        "[]",
        "\0",
        "a,",
        ",a",
        '"',
        "'",
        *ALIKE,
    ]
    pairs = [*product(words, words), *pairs_with_equal_lengths()]
    for mark in ("", *SEPARATORS, *map("".join, product(MARKS, repeat=2)), *MARKS):
        pairs += [(f"a{mark}b", "c"), ("a", f"b{mark}c"), (f"a{mark}", None), (None, f"{mark}a")]
    check_all_different(
        {f"extra_keys={pair}": hash_of(phase4, phase4.ROOT_HASH, [1, 2], pair) for pair in dict.fromkeys(pairs)},
        rule="Different extra keys have different hashes, whatever characters are in them: users choose their salts.",
        hint="can both keys be read back from the bytes that you hash, and None told from a text?",
    )


def test_extra_keys_that_are_all_none_do_not_count(phase4: ModuleType) -> None:
    hashes = {keys: hash_of(phase4, phase4.ROOT_HASH, [1, 2], keys).hex() for keys in ((), (None,), NO_KEYS)}
    expect_equal(
        {f"extra_keys={keys}": digest for keys, digest in hashes.items()},
        {f"extra_keys={keys}": hashes[()] for keys in hashes},
        rule="A key that is None does not count: a block without salt and adapter has one hash, however it is called.",
        situation="hash_block(ROOT_HASH, [1, 2], extra_keys)",
        hint="when do the extra keys go into your bytes?",
    )


def test_hash_is_the_same_in_every_process(phase4: ModuleType) -> None:
    keys = [("salt", None), (None, "adapter"), *((f"salt {n}", f"adapter {n}") for n in range(9))]
    calls = f"[f(bytes(32), [1, 2, 3]), *(f(bytes(range(32)), [70000, 2], keys) for keys in {keys})]"
    here = [digest.hex() for digest in eval(calls, {"f": phase4.hash_block})]
    elsewhere, trouble = hashes_elsewhere(str(phase4.__file__), calls)
    same = sum(one == two for one, two in zip(here, elsewhere, strict=False))
    expect_equal(
        f"{same} of {len(here)} hashes are the same",
        f"{len(here)} of {len(here)} hashes are the same",
        rule="A block has the same hash in every process and on every day.",
        situation=f"blocks with keys and without, hashed here and in another Python process\n{trouble}",
        hint="what but its arguments goes into your hash, and which functions of Python change after a restart?",
    )
