"""Graded tests of task 4.2."""

from types import ModuleType

import pytest

from course.labtest.expect import alone, expect_equal
from course.labtest.phase4.cases import ABC, request_of, update
from course.labtest.phase4.work import check_cost
from course.labtest.support import make_request


@pytest.mark.parametrize(
    ("num_tokens", "block_size", "expected"),
    [
        *((1, 4, 0), (3, 4, 0), (4, 4, 1), (5, 4, 1), (8, 4, 2), (11, 4, 2), (12, 4, 3), (3, 1, 3)),
        *((15, 16, 0), (16, 16, 1), (17, 16, 1), (31, 16, 1), (32, 16, 2), (33, 16, 2)),
    ],
)
def test_only_full_blocks_have_a_hash(phase4: ModuleType, num_tokens: int, block_size: int, expected: int) -> None:
    cache = phase4.HashPrefixCache(block_size)
    request = make_request("A", num_tokens)
    first, second = len(update(cache, request)), len(update(cache, request))
    expect_equal(
        [first, second],
        [expected, expected],
        rule="A request has one hash per block that its known tokens fill, computed or not. A second update adds none.",
        situation=f"num_tokens={num_tokens} in blocks of {block_size}; hashes after the first and the second update",
        hint=f"how many whole blocks of {block_size} do {num_tokens} tokens fill, and at which does an update begin?",
    )


def test_known_tokens_count_computed_or_not(phase4: ModuleType) -> None:
    request = make_request("A", 12, num_computed_tokens=5)
    expect_equal(
        len(update(phase4.HashPrefixCache(4), request)),
        3,
        rule="A block has a hash as soon as its tokens are known. Whether they are computed does not matter.",
        situation="12 tokens, 5 of them computed, in blocks of 4; counted: hashes",
        hint="a hash is made of token ids: which of them does the request know?",
    )


def test_hash_stands_for_the_whole_prefix(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    whole = update(cache, request_of("A", ABC))
    longer = update(cache, request_of("B", [*ABC, 41, 42, 43, 44, 51]))
    other_start = update(cache, request_of("C", [99, *ABC[1:]]))
    other_middle = update(cache, request_of("D", [*ABC[:5], 99, *ABC[6:]]))
    repeated = update(cache, request_of("E", ABC[:4] * 3))
    expect_equal(
        {
            "blocks of a longer request equal to A's": [a == b for a, b in zip(whole, longer, strict=False)],
            "another first token": [a == b for a, b in zip(whole, other_start, strict=False)],
            "another token in the second block": [a == b for a, b in zip(whole, other_middle, strict=False)],
            "different hashes of three equal blocks": len(set(repeated)),
        },
        {
            "blocks of a longer request equal to A's": [True, True, True],
            "another first token": [False, False, False],
            "another token in the second block": [True, False, False],
            "different hashes of three equal blocks": 3,
        },
        rule="A block's hash stands for all tokens up to the block's end, not for the block alone.",
        situation=f"A has the tokens {ABC}, block size 4",
        hint="A's 12 tokens fill three blocks: which tokens and which parent go into each of the hashes?",
    )


def test_hashes_grow_with_the_request(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    at_once = update(cache, request_of("A", ABC))
    growing = request_of("B", ABC[:2])
    counts = [len(update(cache, growing))]
    for token in ABC[2:]:
        growing.all_token_ids.append(token)
        counts.append(len(update(cache, growing)))
    salted = request_of("D", ABC[:5], salt="s")
    update(cache, salted)
    salted.all_token_ids += ABC[5:]
    with_salt = update(cache, salted) == update(cache, request_of("C", ABC, salt="s"))
    same = growing.block_hashes == at_once
    expect_equal(
        {"hashes after each token": counts, "same as at once": same, "D's as C's": with_salt},
        {"hashes after each token": [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3], "same as at once": True, "D's as C's": True},
        rule="Generated tokens fill blocks like prompt tokens, and the hashes do not depend on when they were made.",
        situation="B has the first 2 tokens of A as its prompt and then generates the other 10 one by one\n"
        "C and D have A's tokens and a salt: C is updated once, D with 5 of them and with all 12",
        hint="which blocks take the salt: at the first update, and at a later one?"
        if same and not with_salt
        else "with 2 hashes there, at how many tokens does a third come? Which tokens go into it, and which parent?",
    )


def test_hashes_that_are_there_stay(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    marked, other = request_of("A", ABC), request_of("B", ABC)
    marked.block_hashes, other.block_hashes = [b"x" * 32], [b"y" * 32]
    after, after_other = update(cache, marked), update(cache, other)
    rest_follows = after[1:] != after_other[1:]
    yours = {"number": len(after), "first": after[:1], "the rest follows from the first": rest_follows}
    expected = {"number": 3, "first": [b"x" * 32], "the rest follows from the first": True}
    expect_equal(
        yours,
        expected,
        rule="An update appends after the last hash that is there and hashes nothing a second time.",
        situation="block_hashes of A already has one entry (a mark put there by the test), A has 3 full blocks",
        hint=alone(yours, expected, ["number"])
        or (
            "what is the parent of the first hash that your update appends here?"
            if after[:1] == [b"x" * 32]
            else "an update runs at every step: what may it cost for a request of 100,000 tokens?"
        ),
    )


@pytest.mark.parametrize("call", ["update_block_hashes, per block", "update_block_hashes with one new block"])
def test_hashing_costs_the_same_for_each_block(phase4: ModuleType, call: str) -> None:
    check_cost(phase4, call)


def test_two_requests_with_one_id_have_hashes_of_their_own(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    first = update(cache, request_of("A", ABC))
    again = update(cache, request_of("A", [99, *ABC[1:]]))
    same = update(cache, request_of("B", [99, *ABC[1:]]))
    expect_equal(
        {"equal to the first A's": first == again, "equal to B's": same == again},
        {"equal to the first A's": False, "equal to B's": True},
        rule="Hashes depend on the tokens of this request, not on its id: a later request may have the same id.",
        situation="A with one prompt, then another A and B with another prompt",
        hint="what of a request, besides its tokens, salt and adapter, do your hashes come from?",
    )


def test_tenants_and_adapters_have_hashes_of_their_own(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    words = (None, "", "a", "A", "a ", "b", "山", "川", "é", "e\u0301", "x" * 300 + "1", "x" * 300 + "2")
    keys = [(salt, adapter) for salt in words for adapter in words]
    made = {key: update(cache, request_of("A", ABC, salt=key[0], adapter=key[1])) for key in keys}
    again = {key: update(cache, request_of("B", ABC, salt=key[0], adapter=key[1])) for key in keys}
    alike = [(one, two) for number, one in enumerate(keys) for two in keys[:number] if made[one][0] == made[two][0]]
    expect_equal(
        {
            "different hashes per block": [len({made[key][index] for key in keys}) for index in range(3)],
            "alike (salt, adapter)": alike[:2],
            "the same again for the same keys": made == again,
        },
        {
            "different hashes per block": [144, 144, 144],
            "alike (salt, adapter)": [],
            "the same again for the same keys": True,
        },
        rule="Requests with another salt or another adapter share no block, from the first to the last. None is no "
        "key; an empty text is one.",
        situation="the same 12 tokens with cache_salt and adapter_id out of 12 texts (144 pairs); two of them have 301 "
        "characters and differ in the last",
        hint="what do you do with a salt or adapter before it is hashed? And how do later blocks come to differ?",
    )
