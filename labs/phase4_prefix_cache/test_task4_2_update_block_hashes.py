"""Graded tests of task 4.2."""

from types import ModuleType

import pytest

from course.labtest.phase4.cases import ABC, request_of
from course.labtest.support import expect_equal, expect_rows, make_request
from mini_vllm.core.request import Request
from mini_vllm.seams.interfaces import PrefixCache


def hashes(cache: PrefixCache, request: Request) -> list[bytes]:
    cache.update_block_hashes(request)
    return list(request.block_hashes)


@pytest.mark.parametrize(
    ("num_tokens", "block_size", "expected"),
    [(1, 4, 0), (3, 4, 0), (4, 4, 1), (5, 4, 1), (8, 4, 2), (11, 4, 2), (12, 4, 3), (3, 1, 3), (32, 16, 2)],
)
def test_only_full_blocks_have_a_hash(phase4: ModuleType, num_tokens: int, block_size: int, expected: int) -> None:
    cache = phase4.HashPrefixCache(block_size)
    request = make_request("A", num_tokens)
    counts = [len(hashes(cache, request)), len(hashes(cache, request))]
    expect_equal(
        counts,
        [expected, expected],
        rule="A request has one hash per full block, and a second update adds nothing.",
        situation=f"{num_tokens} tokens in blocks of {block_size}; hashes after the first and the second update",
        hint="the first update made as many as it should: at which block does the second one begin?"
        if counts[0] == expected
        else "a block that is not full will still change: what would its hash stand for?",
    )


def test_hash_stands_for_the_whole_prefix(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    whole = hashes(cache, request_of("A", ABC))
    longer = hashes(cache, request_of("B", [*ABC, 41, 42, 43, 44, 51]))
    other_start = hashes(cache, request_of("C", [99, *ABC[1:]]))
    other_middle = hashes(cache, request_of("D", [*ABC[:5], 99, *ABC[6:]]))
    repeated = hashes(cache, request_of("E", ABC[:4] * 3))
    expect_rows(
        {
            "blocks of a longer request equal to A's": (
                [a == b for a, b in zip(whole, longer, strict=False)],
                [True, True, True],
            ),
            "another first token": ([a == b for a, b in zip(whole, other_start, strict=True)], [False, False, False]),
            "another token in the second block": (
                [a == b for a, b in zip(whole, other_middle, strict=True)],
                [True, False, False],
            ),
            "different hashes of three equal blocks": (len(set(repeated)), 3),
        },
        rule="A block's hash stands for all tokens up to the block's end, not for the block alone.",
        situation=f"A has the tokens {ABC}, block size 4",
        hint="what is the parent of the second block?",
    )


def test_hashes_grow_with_the_request(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    at_once = hashes(cache, request_of("A", ABC))
    growing = request_of("B", ABC[:2])
    counts = [len(hashes(cache, growing))]
    for token in ABC[2:]:
        growing.all_token_ids.append(token)
        counts.append(len(hashes(cache, growing)))
    expect_rows(
        {
            "hashes after each token": (counts, [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]),
            "same as at once": (growing.block_hashes == at_once, True),
        },
        rule="Generated tokens fill blocks like prompt tokens, and the hashes do not depend on when they were made.",
        situation="B has the first 2 tokens of A as its prompt and then generates the other 10 one by one",
        hint="with 2 hashes there, at which token does the next block begin?",
    )


def test_hashes_that_are_there_stay(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    marked, other = request_of("A", ABC), request_of("B", ABC)
    marked.block_hashes, other.block_hashes = [b"x" * 32], [b"y" * 32]
    after, after_other = hashes(cache, marked), hashes(cache, other)
    expect_rows(
        {
            "number": (len(after), 3),
            "first": (after[:1], [b"x" * 32]),
            "the rest follows from the first": (after[1:] != after_other[1:], True),
        },
        rule="An update appends behind the last hash that is there and hashes nothing a second time.",
        situation="block_hashes of A already has one entry (a mark put there by the test), A has 3 full blocks",
        hint="an update runs at every step: what may it cost for a request of 100,000 tokens?",
    )


def test_tenants_and_adapters_have_hashes_of_their_own(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    keys: list[tuple[str | None, str | None]] = [(None, None), ("a", None), ("b", None), (None, "a"), ("a", "a")]
    made = {key: hashes(cache, request_of("A", ABC, salt=key[0], adapter=key[1])) for key in keys}
    again = {key: hashes(cache, request_of("B", ABC, salt=key[0], adapter=key[1])) for key in keys}
    different = [len({made[key][index] for key in keys}) for index in range(3)]
    expect_rows(
        {
            "different hashes per block": (different, [5, 5, 5]),
            "the same again for the same keys": (made == again, True),
        },
        rule="Requests with another salt or another adapter share no block, from the first to the last.",
        situation=f"the same 12 tokens with (cache_salt, adapter_id) = {keys}",
        hint="if the first block's hash differs, what makes the second one's differ?",
    )
