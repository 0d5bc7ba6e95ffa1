"""The free queue and the lives of blocks: the drawing and the text hold the facts of the records."""

from dataclasses import replace

import pytest

from course.parity.scenario import PUBLIC_TRACES, read_scenarios
from course.traces.recording import Recording
from course.views.block_life import block_life
from course.views.block_life.cycle import arrows, counts
from course.views.block_life.lives import lives_of
from course.views.block_life.moves import all_moves
from course.views.text import spaced
from course.views.time_machine.machine import states
from course.workloads.timed_request import TimedRequest
from tests.views.drawing import described, is_sound, layers, marked, texts, tooltips
from tests.views.runs import large, observed, small
from tests.views.test_lessons import played
from tests.views.test_time_machine import numbers

RECORDINGS = [small(), small(caching=False), small(5, 1), large(), large(1), observed(), observed("phase_1_alone")]


def scenario(name: str) -> Recording:
    found = next(s for s in read_scenarios(PUBLIC_TRACES / "named.jsonl") if s.name == name)
    return Recording.of_scenario(found)


def test_a_step_that_was_counted_by_hand() -> None:
    """Step 6 of the shipped trace: r3 is preempted, and three of its blocks are handed out at once."""
    picture = block_life(observed())[6]
    drawn = layers(picture)
    assert [texts(drawn[f"planned-{place}"]) for place in range(7)] == [
        ["20"],
        ["19"],
        ["18"],
        ["17"],
        ["16"],
        ["12"],
        [],
    ]
    assert [texts(drawn[f"after-{place}"]) for place in range(4)] == [["17"], ["16"], ["12"], []]
    assert tooltips(drawn["planned-1"]) == [
        "block 19: handed out to r1, old content lost, given back by r3 just before"
    ]
    assert tooltips(drawn["planned-5"]) == ["block 12: free, still holds content of r3, given back by r3 in this step"]
    assert texts(drawn["state-1"]) == ["14", "held"]
    assert texts(drawn["state-3"]) == ["3", "free, content kept"]
    assert texts(drawn["way-6"]) == ["2 handed out,", "content lost"]
    assert described(picture)["handed out"] == "r0 20; r1 19; r2 18"
    assert described(picture)["block 18"] == (
        "steps 0-1 free, steps 2-5 held by r3, step 6 held by r2 (old content lost)"
    )


def test_a_hit_takes_blocks_out_of_the_middle_of_the_queue() -> None:
    picture = block_life(observed())[8]
    found = [part for part in marked(picture, "move", "out") if "mv-hit" in str([mark.get("class") for mark in part])]
    assert [part.get("data-block") for part in found] == ["17", "16", "12"]
    assert described(picture)["found while free"] == "12 16 17"
    assert texts(layers(picture)["way-5"]) == ["3 found", "by a hit"]
    assert "Found by a hit: r3 12 16 17." in picture.sentence


def test_tail_first_as_in_the_handout_of_phase_4() -> None:
    """A and B finish, A first: the queue is 8, 3, 2, 1, 7, 6, 5, 4, and then B's head survives."""
    film = block_life(scenario("lru_eviction_order"))
    assert numbers(described(film[1])["free queue after the step, head first"]) == [8, 3, 2, 1, 7, 6, 5, 4]
    shown = [texts(layers(film[1])[f"after-{place}"])[0] for place in range(8)]
    assert shown == ["8", "3", "2", "1", "7", "6", "5", "4"]
    assert texts(layers(film[1])["came-in"])[0].startswith("from")
    assert described(film[5])["found while free"] == "4 5"


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
        assert is_sound(picture)
        before = list(moves.after)


@pytest.mark.parametrize("recording", [small(), observed(), large(), small(caching=False)], ids=str)
def test_blocks_taken_and_freed_explain_the_whole_queue(recording: Recording) -> None:
    """After each step the queue holds the blocks that were not taken, then the freed ones, and no others."""
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


def test_blocks_handed_out_and_given_back_in_one_step_are_counted_while_it_lasts() -> None:
    """The second step of notebook 02's queue: C takes four blocks and gives them back at its end."""
    requests = [TimedRequest(0, name, [place] * size, max_tokens=1) for place, (name, size) in enumerate(SIZES)]
    requests = [*requests[:2], replace(requests[2], arrival_time=1)]
    picture = block_life(played(requests, 6, 2))[1]
    assert texts(layers(picture)["state-1"]) == ["4 \N{RIGHTWARDS ARROW} 0", "held"]
    assert texts(layers(picture)["headline"])[1] == "4 of 6 blocks in use, 0 after the step"
    assert picture.sentence == (
        "Handed out: C 6 2 1 5. Given back after the step, last block of a table first: C 5 1 2 6."
    )


SIZES = (("A", 8), ("B", 12), ("C", 16))


def test_blocks_can_be_chosen_and_followed() -> None:
    film = block_life(observed(), [17, 4])
    assert [key for key, _ in film.follow[:3]] == ["block:17", "block:4", "request:0"]
    (head,) = marked(film[6], "about", "block:17")
    assert tooltips(head) == ["block 17: steps 0-1 free, steps 2-5 held by r3, step 6 free, content of r3 kept"]
    states_drawn = [part.get("data-state") for part in layers(film[6])["life-rows"].iter() if part.get("data-state")]
    assert states_drawn[:3] == ["held", "kept", "held"]
    assert "shared" in states_drawn
    for blocks, problem in (([0], "blocks has 0"), ([21], "1 to 20"), ([3, 3], "twice")):
        with pytest.raises(ValueError, match=problem):
            block_life(observed(), blocks)


def test_a_large_pool_shows_the_busiest_blocks_and_both_ends_of_the_queue() -> None:
    film = block_life(large())
    assert "12 of 200" in texts(layers(film[0])["lives-heading"])
    assert len([key for key, _ in film.follow if key.startswith("block:")]) == 12
    hidden = texts(layers(film[0])["planned-10"])
    assert hidden == ["+181"]
    assert texts(layers(film[0])["planned-19"]) == ["200"]
    assert spaced(range(1, 10), 6) == "1 2 3 4 5 6 and 3 more"
