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
from tests.views.drawing import SVG, count, layers, texts, tooltips

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


def many(num_prompts: int = 12, longest: int = 330) -> dict[str, list[int]]:
    rng = random.Random(0)
    base = [rng.randrange(1000, 50_000) for _ in range(longest)]
    return {
        f"r{i}": [*base[: rng.randrange(longest)], *[rng.randrange(9) for _ in range(40)]] for i in range(num_prompts)
    }


@pytest.mark.parametrize("hashed", [True, False])
def test_prompts_diverge_where_their_tokens_do_with_and_without_hashes(hashed: bool) -> None:
    picture = hash_chain(PROMPTS, 4, hash_block if hashed else None, salts=SALTS)
    found = ["".join(firsts(picture, number)) for number in range(5)]
    assert found == ["000", "0011", "222", "", "444"]
    drawn = hash_chain({"A": A}, 4, hash_block).text_alternative
    assert hash_block(hash_block(ROOT_HASH, A[0:4], (None, None)), A[4:8]).hex()[:8] in drawn


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
    assert count(picture, "mv-found") == 1


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
    assert count(hash_chain(head, 4, forgets_the_parent), "mv-wrong") == 2
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
def test_extremes_lose_nothing(prompts: dict[str, list[int]]) -> None:
    picture = hash_chain(prompts, 4, hash_block)
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
