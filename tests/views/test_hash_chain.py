"""The hash chain: equal prefixes have equal colours, wrong hashes are marked, the text has the same facts."""

import hashlib
import random
from collections.abc import Sequence

import pytest

from course.views.hash_chain import chain_panel, hash_chain, hits_of
from course.views.hash_chain.chains import ROOT_HASH, chains_of, faults
from course.views.picture import Picture
from mini_vllm.core.interfaces import HashBlock
from solutions.phase4_prefix_cache import HashPrefixCache, hash_block
from tests.views.drawing import SVG, is_sound, layers, texts, tooltips, tree

Keys = Sequence[str | None]
SYSTEM = list(range(10, 18))
A = [*SYSTEM, 21, 22, 23, 24, 31, 32]
B = [*SYSTEM, 21, 22, 99, 24, 31, 32, 33, 34, 35]
PROMPTS = {"A": A, "B": B, "C": A, "D": [1, 2, 3], "E": [9, *A[1:12]]}
SALTS = {"C": "blue"}


def firsts(picture: Picture, number: int) -> list[str]:
    """Return the number of the request whose colour each block of a chain has."""
    chain = layers(picture)[f"chain-{number}"]
    return [str(part.get("data-first")) for part in chain.iter(f"{SVG}g") if part.get("data-first")]


def frames(picture: Picture, name: str) -> int:
    return sum(name in (part.get("class") or "").split() for part in tree(picture).iter())


def many(num_prompts: int = 12, longest: int = 330) -> dict[str, list[int]]:
    rng = random.Random(0)
    base = [rng.randrange(1000, 50_000) for _ in range(longest)]
    return {
        f"r{i}": [*base[: rng.randrange(longest)], *[rng.randrange(9) for _ in range(40)]] for i in range(num_prompts)
    }


def test_the_chain_of_the_handout() -> None:
    """Blocks of 4, a prompt of 14 tokens: three hashes, each of its parent's and its tokens; the rest has none."""
    picture = hash_chain({"A": A}, 4, hash_block)
    h0 = hash_block(ROOT_HASH, A[0:4], (None, None))
    h1 = hash_block(h0, A[4:8])
    h2 = hash_block(h1, A[8:12])
    drawn = texts(layers(picture)["chain-0"])
    assert drawn == [
        "A",
        *["10 11 12 13", h0.hex()[:8], "14 15 16 17", h1.hex()[:8], "21 22 23 24", h2.hex()[:8]],
        "2 tokens, no hash",
    ]
    assert f"A 3rd block: {h2.hex()[:8]} = 21 22 23 24" in picture.text_alternative
    assert "A rest: 31 32, not full, no hash" in picture.text_alternative
    assert picture.sentence == "A: 3 full blocks, and each hash covers all tokens before it too."


def test_prompts_diverge_where_their_tokens_do() -> None:
    picture = hash_chain(PROMPTS, 4, hash_block, salts=SALTS)
    assert [firsts(picture, number) for number in range(5)] == [
        ["0", "0", "0"],
        ["0", "0", "1", "1"],
        ["2", "2", "2"],
        [],
        ["4", "4", "4"],
    ]
    assert "B shares: 2 blocks shared with A, then token 10 is 99, not 23" in picture.text_alternative
    assert "C shares: no shared block: same tokens as A, other keys" in picture.text_alternative
    assert "D shares: no full block, so no hash" in picture.text_alternative
    assert "E shares: no shared block: token 0 is 9, not 10" in picture.text_alternative
    assert "E 3rd block: " in picture.text_alternative
    differing = [part.text for part in tree(picture).iter() if "mv-differing" in str(part.get("class"))]
    assert differing == ["99", "9"], "the first token of B and of E that is another"
    assert texts(layers(picture)["heads"])[1:] == ["1st block", "2nd block", "3rd block", "4th block"]
    assert frames(picture, "mv-alike") == 3 + 2, "all of C's blocks, and E's behind the first"
    assert frames(picture, "mv-wrong") == 0
    assert "salt blue" in texts(layers(picture)["chain-2"])


@pytest.mark.parametrize("hashed", [True, False])
def test_without_hashes_the_same_blocks_are_alike(hashed: bool) -> None:
    drawn = hash_chain(PROMPTS, 4, hash_block if hashed else None, salts=SALTS)
    assert firsts(drawn, 1) == ["0", "0", "1", "1"]
    assert ("A1" in texts(layers(drawn)["chain-1"])) != hashed
    assert ("no hashes" in drawn.text_alternative) != hashed


@pytest.mark.parametrize("num_tokens", [47, 48, 50])
def test_hits_are_those_of_the_handout(num_tokens: int) -> None:
    """Question 1 of phase 4: the same prompt again finds whole blocks, and at most all tokens but one."""
    prompt = list(range(num_tokens))
    prompts = {"A": prompt, "again": prompt}
    hits = hits_of(prompts, HashPrefixCache(16), 16)
    assert len(hits["again"]) * 16 == {47: 32, 48: 32, 50: 48}[num_tokens]
    picture = hash_chain(prompts, 16, hash_block, hits=hits)
    words = f"hit {len(hits['again']) * 16} of {num_tokens} tokens"
    assert words in picture.text_alternative
    assert words in picture.sentence
    assert any(words in line for line in texts(layers(picture)["chain-1"]))
    assert frames(picture, "mv-found") == 1


def forgets_the_parent(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Keys = (None, None)) -> bytes:
    return hash_block(ROOT_HASH, token_ids, extra_keys)


def forgets_the_salt(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Keys = (None, None)) -> bytes:
    return hash_block(parent_hash, token_ids)


def counts_calls() -> HashBlock:
    calls = iter(range(1000))

    def numbered(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Keys = (None, None)) -> bytes:
        return hashlib.sha256(str(next(calls)).encode()).digest()

    return numbered


def test_a_wrong_hash_is_marked() -> None:
    head = {"A": A, "E": PROMPTS["E"]}
    found = faults(chains_of(head, 4, forgets_the_parent, {}, {}))
    assert [(fault.number, fault.place) for fault in found] == [(1, 1), (1, 2)]
    picture = hash_chain(head, 4, forgets_the_parent)
    assert frames(picture, "mv-wrong") == 2
    assert firsts(picture, 1) == ["1", "0", "0"]
    assert picture.sentence.startswith("The 2nd block of E has the hash of the 2nd block of A")
    assert "wrong: the 3rd block of E" in picture.text_alternative
    salted = chains_of({"A": A, "C": A}, 4, forgets_the_salt, SALTS, {})
    assert [fault.place for fault in faults(salted)] == [0, 1, 2]
    changing = chains_of({"A": A, "B": A}, 4, counts_calls(), {}, {})
    assert ["another hash" in fault.text for fault in faults(changing)] == [True] * 3


def test_prompts_that_cannot_be_drawn_are_refused() -> None:
    for arguments, problem in (
        (({"A": A}, 0), "block_size is 0"),
        (({}, 4), "prompts is empty"),
        ((many(13), 16), "13 prompts, but a picture holds at most 12"),
        (({"A": A}, 4, lambda *_: 7), "returned 7, but a hash is bytes"),
    ):
        with pytest.raises(ValueError, match=problem):
            hash_chain(*arguments)
    with pytest.raises(ValueError, match="name B, but the prompts are A"):
        hash_chain({"A": A}, 4, salts={"B": "x"})


@pytest.mark.parametrize("prompts", [{"A": [1, 2, 3, 4]}, {"A": list(range(80))}, {"A": []}, many(), many(12, 1000)])
def test_extremes_are_sound_and_lose_nothing(prompts: dict[str, list[int]]) -> None:
    picture = hash_chain(prompts, 4, hash_block)
    assert is_sound(picture)
    for number, (name, token_ids) in enumerate(prompts.items()):
        num_full = len(token_ids) // 4
        assert f"{name}: {len(token_ids):,} tokens, {num_full} full block" in picture.text_alternative
        shown = firsts(picture, number)
        assert len(shown) == min(num_full, 20)
        chain = layers(picture)[f"chain-{number}"]
        if num_full > 20:
            assert f"+{num_full - 20}" in texts(chain)
            assert any(words.startswith(f"{num_full - 20} more blocks") for words in tooltips(chain))


def test_the_panel_changes_one_token() -> None:
    panel = chain_panel(A, hash_block)
    assert "B shares: 1 block shared with A, then token 5 is 16, not 15" in panel.picture().text_alternative
    panel.set(position=0)
    assert "B shares: no shared block: token 0 is 11, not 10" in panel.picture().text_alternative
    panel.set(position=13, block_size=2)
    assert "B shares: 6 blocks shared with A, then token 13 is 33, not 32" in panel.picture().text_alternative
    panel.set(salted=True)
    assert "same tokens as A, other keys" in panel.picture().text_alternative
    with pytest.raises(ValueError, match="token_ids is empty"):
        chain_panel([])
