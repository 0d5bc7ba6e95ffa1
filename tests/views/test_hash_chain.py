"""Blocks: hash chains with hits and wrong hashes, the free queue, and each block's life as recorded."""

import random
from collections.abc import Sequence
from itertools import count

import pytest

from mini_vllm_labs.pictures.block_life import block_life
from mini_vllm_labs.pictures.block_life.cycle import arrows, counts
from mini_vllm_labs.pictures.block_life.lives import lives_of
from mini_vllm_labs.pictures.block_life.moves import all_moves
from mini_vllm_labs.pictures.hash_chain import chain_panel, hash_chain, hits_of
from mini_vllm_labs.pictures.hash_chain.chains import ROOT_HASH, chains_of, faults
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.time_machine.machine import states
from mini_vllm_labs.runs.traces.recording import Recording
from solutions.phase4_prefix_cache import HashPrefixCache, hash_block
from tests.views.runs import large, observed, small
from tests.views.svg_reader import SVG, described, layers, marked, numbers, texts, tooltips

Keys = Sequence[str | None]
SYSTEM = list(range(10, 18))
A = [*SYSTEM, 21, 22, 23, 24, 31, 32]
B = [*SYSTEM, 21, 22, 99, 24, 31, 32, 33, 34, 35]
PROMPTS = {"A": A, "B": B, "C": A, "D": [1, 2, 3], "E": [9, *A[1:12]]}
SALTS = {"C": "blue"}
RECORDINGS = [small(), small(caching=False), small(5, 1), large(), large(1), observed(), observed("phase_1_alone")]


def firsts(picture: Picture, number: int) -> list[str]:
    """Return, for each block in a chain, the number of the request whose colour it has."""
    chain = layers(picture)[f"chain-{number}"]
    return [str(part.get("data-first")) for part in chain.iter(f"{SVG}g") if part.get("data-first")]


def many(num_prompts: int = 12, longest: int = 330) -> dict[str, list[int]]:
    rng = random.Random(0)
    base = [rng.randrange(1000, 50_000) for _ in range(longest)]
    return {
        f"r{i}": [*base[: rng.randrange(longest)], *[rng.randrange(9) for _ in range(40)]] for i in range(num_prompts)
    }


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(47, 2), (48, 2), (50, 3)])
def test_hits_are_those_of_the_handout(num_tokens: int, num_blocks: int) -> None:
    """Question 1 of phase 4: repeating a prompt hits only whole blocks, and never the last token."""
    prompts = dict.fromkeys(("A", "again"), range(num_tokens))
    hits = hits_of(prompts, HashPrefixCache(16), 16)
    assert hits == {"A": [], "again": list(range(1, num_blocks + 1))}


def forgets_the_parent(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Keys = (None, None)) -> bytes:
    return hash_block(ROOT_HASH, token_ids, extra_keys)


def test_wrong_hashes_are_found() -> None:
    head = {"A": A, "E": PROMPTS["E"]}
    found = faults(chains_of(head, 4, forgets_the_parent, {}))
    assert [(fault.number, fault.place) for fault in found] == [(1, 1), (1, 2)]
    salted = chains_of({"A": A, "C": A}, 4, lambda parent, tokens, _: hash_block(parent, tokens), SALTS)
    assert [fault.place for fault in faults(salted)] == [0, 1, 2]
    calls = count()
    changing = chains_of({"A": A, "B": A}, 4, lambda *_: next(calls).to_bytes(32), {})
    assert ["a different hash" in fault.text for fault in faults(changing)] == [True] * 3


def test_prompts_that_cannot_be_drawn_are_refused() -> None:
    for arguments, problem in (
        (({"A": A}, 0), "block_size is 0"),
        (({}, 4), "prompts is empty"),
        ((many(13), 16), "13 prompts, but a picture can show at most 12"),
        (({"A": A}, 4, lambda *_: 7), "returned 7, but a hash must be bytes"),
    ):
        with pytest.raises(ValueError, match=problem):
            hash_chain(*arguments)
    with pytest.raises(ValueError, match="salts contains the names B, but the prompts are A"):
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
    panel.set(position=13, block_size=2)
    assert "B shares: 6 blocks shared with A, then token 13 is 33, not 32" in panel.picture().text_alternative
    panel.set(salted=True)
    assert "same tokens as A, other keys" in panel.picture().text_alternative
    with pytest.raises(ValueError, match="token_ids is empty"):
        chain_panel([])


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_every_step_adds_up_and_equals_its_record(recording: Recording) -> None:
    info, film = recording.info, block_life(recording)
    before = list(range(1, info.num_blocks + 1))
    for moves, record, picture in zip(all_moves(info, states(recording)), recording.steps, film.pictures, strict=True):
        assert sum(counts(moves).values()) == info.num_blocks
        assert len(moves.after) == record["free_after_update"]
        facts = described(picture)
        assert numbers(facts["free queue before the step, head first"]) == before
        assert numbers(facts["free queue after the step, head first"]) == moves.after
        assert numbers(facts["content lost"]) == record["evicted"]
        taken = {share["id"]: share["new_blocks"] for share in record["scheduled"] if share["new_blocks"]}
        assert dict(moves.handed_out) == taken
        gone = {part.get("data-block") for part in marked(picture, "move", "out")}
        came = {part.get("data-block") for part in marked(picture, "move", "in")}
        assert gone <= set(map(str, moves.taker))
        assert came <= set(map(str, moves.all_given_back))
        ways = arrows(moves)
        assert ways["handed out, content forgotten"] == len(record["evicted"])
        before = list(moves.after)


@pytest.mark.parametrize("recording", [small(), observed(), large(), small(caching=False)], ids=str)
def test_blocks_taken_and_freed_explain_the_whole_queue(recording: Recording) -> None:
    """After each step, the queue contains the blocks that were not taken, then the freed ones, and no others."""
    for moves in all_moves(recording.info, states(recording)):
        left = [block for block in moves.while_planned if block not in moves.taker]
        came = [block for _, blocks in moves.given_back for block in blocks]
        assert [*left, *came] == moves.after


@pytest.mark.parametrize("recording", [small(), observed(), large()], ids=str)
def test_lives_hold_every_step_once_and_agree_with_the_tables(recording: Recording) -> None:
    lives = lives_of(recording.info, states(recording))
    for state in states(recording):
        assert state.record is not None
        step, holders = state.record["step"], state.holders()
        for block, life in lives.items():
            (span,) = [span for span in life.spans if span.first <= step <= span.last]
            assert list(span.holders) == holders.get(block, [])
            assert (step in life.forgotten) == (block in state.record["evicted"])


def test_blocks_can_be_chosen_and_followed() -> None:
    assert [key for key, _ in block_life(observed(), [17, 4]).follow[:3]] == ["block:17", "block:4", "request:0"]
    assert len([key for key, _ in block_life(large()).follow if key.startswith("block:")]) == 12, "the busiest"
    for blocks, problem in (
        ([0], "blocks contains 0, but block ids go from"),
        ([21], "1 to 20"),
        ([3, 3], "must not contain duplicates"),
    ):
        with pytest.raises(ValueError, match=problem):
            block_life(observed(), blocks)
