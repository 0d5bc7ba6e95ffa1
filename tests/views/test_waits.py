"""The strip of a run shows how long each request waits: the longest bar is the longest wait."""

from course.views.time_machine import wait_strip
from course.workloads.timed_request import TimedRequest
from tests.views.drawing import SVG, is_sound, layers, texts, tree
from tests.views.test_lessons import played

URGENT = [TimedRequest(2 * k, f"U{k}", [k] * 4, max_tokens=2, priority=0) for k in range(4)]
STREAM = sorted([*URGENT, TimedRequest(1, "N", [99] * 4, 4, priority=1)], key=lambda request: request.arrival_time)


def test_the_wait_of_a_starved_request_is_the_longest_bar() -> None:
    picture = wait_strip(played(STREAM, 32, 5, max_num_seqs=1, policy="priority"), "PRIORITY")
    rows = layers(picture)["rows"].findall(f"{SVG}g")
    waits = [
        [float(str(bar.get("width"))) for bar in row.iter(f"{SVG}rect") if "mv-waits" in str(bar.get("class"))]
        for row in rows
    ]
    assert [bool(found) for found in waits] == [False, True, False, False, False]
    assert "7 steps" in texts(rows[1])
    assert picture.sentence == "First token in step 4.0 on average. N waits longest: 7 steps. All done in step 11."
    assert is_sound(picture)


def test_the_text_has_every_request_and_the_picture_its_first_token() -> None:
    picture = wait_strip(played(STREAM, 32, 5, max_num_seqs=1, policy="priority"), "PRIORITY", width=420)
    lines = picture.text_alternative.splitlines()
    assert lines[0] == "PRIORITY"
    assert "N: arrives in step 1, waits 7 steps, first token in step 8, done in step 11" in lines
    assert "U0: arrives in step 0, waits 0 steps, first token in step 0, done in step 1" in lines
    assert {"U0", "N", "8", "step"} <= set(texts(tree(picture)))
    assert picture.width == 420


def test_steps_after_a_preemption_are_waiting_too() -> None:
    grown = [TimedRequest(0, name, [ord(name)] * 4, max_tokens=9) for name in "AB"]
    picture = wait_strip(played(grown, 4, 3), "tight")
    assert "B waits longest" in picture.sentence
