"""Questions to the parts of the KV cache, one operation after the other: phase 4."""

from itertools import product
from random import Random
from typing import Any

from classroom.judge.question import MAX_CASES, JudgeQuestion
from classroom.judge.script import Script
from course.labtest.phase4.cases import pairs_with_equal_lengths
from course.labtest.phase4.random_workload import RandomWorkload
from course.labtest.recorded import Answers
from mini_vllm.core.request import Request

VOCABULARIES = (31, 33, 37, 131, 256, 257, 1000, 1024, 4096, 10_000, 32_000, 50_257, 2**16, 65_537, 99_991, 1_000_003)
MARKS = " ,|:;/-_.=+()[]\n\t\0\1\2\x1f\"'"
# Texts that an encoding, a normal form or a cut makes equal.
SEPARATORS = ("', '", '", "', "','", '","', " | ", " - ", "|||", "###", "::=")
WORDS = (*MARKS, *("", "a", "b", "ab", "A", "a ", "None", "null", "[]", "0", "7", "07", "\N{ARABIC-INDIC DIGIT SEVEN}"))
WORDS += ("山", "川", "é", "e\u0301", "ﬁ", "fi", "ß", "ss", "\U0001f600", "\U0001f601", "\U00010041")
HALVES = ("", "?", "\ufffd", "\ud800", "\ud801")  # the last two are no valid texts, and may be refused
LIKE_SALTS = (*WORDS, "x" * 64 + "1", "x" * 64 + "2", "x" * 300 + "1", "x" * 300 + "2")


class ReferenceAnswers(Answers):
    """Takes every answer for the right one: what runs here is the reference itself."""

    def __init__(self) -> None:
        """Need no recorded answers."""

    def __call__(self, yours: object) -> Any:
        return yours


def hash_cases(rng: Random) -> JudgeQuestion:
    """Blocks that agree and blocks that nearly agree: in tokens, order, parent or extra keys."""
    script = Script(4)
    hash_block, root = script.functions.hash_block, script.file.ROOT_HASH
    for bits in product(rng.sample(range(2), 2), repeat=5):  # the tokens of four in a row cancel out
        hash_block(root, bits)
    plain, place = [rng.randrange(500, 2**17) for _ in range(16)], rng.randrange(32)
    blocks = [
        plain,
        plain[::-1],
        *([*plain[:at], 9, *plain[at + 1 :]] for at in range(16)),
        [*plain[:-1], 0],
        plain[:-1],
    ]
    one, two, three = (rng.randrange(1, 10) for _ in range(3))
    blocks += [[one * 10 + two, three], [one, two * 10 + three]]  # 12, 3 and 1, 23
    blocks += [[0, 1], [1, 0], [0], [1]]
    for base in VOCABULARIES:  # alike as digits of a number, or as a sum with weights
        blocks += [[base, 0], [0, base], [base, 1], [1, base], [one + base, two], [one, two + base], [base]]
    blocks += [list(tokens) for tokens in product((0, 1, 2, 37, 256), repeat=3)]
    over = rng.choice((root, hash_block(root, plain)))
    for tokens in blocks:
        hash_block(over, rng.choice((list, tuple))(tokens))
    other = bytes(range(100, 132))
    changed = [other[:at] + b"\0" + other[at + 1 :] for at in (place, 31 - place)]
    parents = [root, over, hash_block(over, plain), other, *changed]
    words: list[str | None] = [None, *rng.sample(LIKE_SALTS, 20)]
    keys: list[tuple[str | None, ...]] = [*product(words, words), (None,)]
    for mark in (*MARKS, *SEPARATORS, *map("".join, product(MARKS, repeat=2))):
        keys += [(f"a{mark}b", "c"), ("a", f"b{mark}c")]
    keys += [*((half, None) for half in HALVES), *pairs_with_equal_lengths()]
    for one_parent in parents:
        hash_block(one_parent, blocks[-1])
        hash_block(one_parent, blocks[-1], ("a", None))
    for pair in keys:
        hash_block(root, plain[:2], pair)
        if rng.random() < 0.1:  # equal, and another object
            hash_block(root, [int(str(token)) for token in plain[:2]], [key and "".join([*key]) for key in pair])
    return script.question()


def cache_operations(rng: Random) -> JudgeQuestion:
    """Requests with shared prefixes arrive, grow, commit, finish and resume; at the end a prefix has lost a block."""
    script, block_size = Script(4), rng.choice((1, 2, 3))
    cache = script.functions.HashPrefixCache(block_size)
    workload = RandomWorkload(cache, ReferenceAnswers(), block_size, rng.getrandbits(60))
    while len(script.calls) < 2 * MAX_CASES:
        workload.run(1)
    tokens, table = [rng.randrange(2, 9) for _ in range(4 * block_size)], rng.sample(range(30, 60), 4)
    first, second = Request("first", tokens), Request("second", [*tokens, 9])
    cache.update_block_hashes(first)
    cache.cache_full_blocks(first, table, 0, 4)
    cache.evict(rng.choice(table[:3]))
    cache.cache_full_blocks(first, table, 3, 4)
    cache.update_block_hashes(second)
    cache.find_longest_cache_hit(second)
    script.functions.HashPrefixCache(block_size).find_longest_cache_hit(second)  # another engine has none of them
    growing, whole = (
        Request("growing", tokens[: 2 * block_size], cache_salt="s"),
        Request("w", [*tokens, 9], cache_salt="s"),
    )
    cache.update_block_hashes(growing)
    growing.all_token_ids += tokens[2 * block_size :]
    cache.cache_full_blocks(growing, rng.sample(range(60, 90), 4), 0, 4)
    cache.find_longest_cache_hit(whole)
    equal_blocks(script, rng)
    return script.question()


def equal_blocks(script: Script, rng: Random) -> None:
    """Blocks of 16 tokens of which many have one content, a long prompt, and salts that look alike."""
    cache, tokens = script.functions.HashPrefixCache(16), [rng.randrange(99) for _ in range(16 * 300)]
    block_ids = iter(rng.sample(range(1, 900), 400))
    many = {next(block_ids): Request(f"r{number}", tokens[:17]) for number in range(7)}
    for block_id, request in many.items():
        cache.cache_full_blocks(request, [block_id], 0, 1)
    for block_id in rng.sample([*many], 6):
        for request in rng.sample([*many.values()], 2):
            cache.find_longest_cache_hit(request)
        rng.choice((cache.evict, lambda one: cache.drop_uncomputed([0, one])))(block_id)
    for number, salt in enumerate(rng.sample(LIKE_SALTS, len(LIKE_SALTS))):
        request = Request(f"s{number}", tokens[:16], cache_salt=salt)
        cache.cache_full_blocks(request, [next(block_ids)], 0, 1)
    cache.cache_full_blocks(Request("long", tokens), [next(block_ids) for _ in range(300)], 0, 300)
    cache.find_longest_cache_hit(Request("long again", tokens))
    cache = script.functions.HashPrefixCache(1)
    cache.cache_full_blocks(Request("many blocks", tokens[:1_200]), list(range(1, 1_201)), 0, 1_200)
    cache.find_longest_cache_hit(Request("many blocks again", tokens[:1_200]))
