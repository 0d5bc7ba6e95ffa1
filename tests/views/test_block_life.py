"""The free queue and the lives of blocks: the drawing and the text hold the facts of the records."""

import pytest

from course.traces.recording import Recording
from course.views.block_life import block_life
from course.views.block_life.cycle import arrows, counts
from course.views.block_life.lives import lives_of
from course.views.block_life.moves import all_moves
from course.views.time_machine.machine import states
from tests.views.drawing import described, marked, numbers
from tests.views.runs import large, observed, small

RECORDINGS = [small(), small(caching=False), small(5, 1), large(), large(1), observed(), observed("phase_1_alone")]


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


def test_blocks_can_be_chosen_and_followed() -> None:
    assert [key for key, _ in block_life(observed(), [17, 4]).follow[:3]] == ["block:17", "block:4", "request:0"]
    assert len([key for key, _ in block_life(large()).follow if key.startswith("block:")]) == 12, "the busiest"
    for blocks, problem in (([0], "blocks has 0"), ([21], "1 to 20"), ([3, 3], "twice")):
        with pytest.raises(ValueError, match=problem):
            block_life(observed(), blocks)
