"""The picture shows the lesson: memory on one scale, waits in time, stalls, undone plans, priorities, hits, tables."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from course.fresh.jobs import play_workload
from course.traces.recording import Recording
from course.views.picture import Picture
from course.views.time_machine import compare, time_machine
from course.workloads.timed_request import TimedRequest
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from tests.views.drawing import SVG, described, layers, texts, tooltips
from tests.views.runs import small


def of_class(picture: Picture, name: str, kind: str) -> list[ElementTree.Element]:
    """Return the elements of a layer with a class."""
    return [part for part in layers(picture)[name].iter() if kind in str(part.get("class")).split()]


def played(requests: list[TimedRequest], num_blocks: int, phases: int, **settings: Any) -> Recording:
    config = EngineConfig(
        max_num_batched_tokens=40, max_model_len=40, block_size=4, num_gpu_blocks=num_blocks + 1, **settings
    )
    lineup = parse_lineup(",".join(f"solution:{phase}" for phase in range(1, phases + 1)))
    return play_workload(requests, config, lineup).recording


THREE = [
    TimedRequest(0, "A", [65] * 4, max_tokens=9),
    TimedRequest(0, "B", [66] * 4, max_tokens=5),
    TimedRequest(0, "C", [67] * 4, max_tokens=5),
]
RANKED = [
    replace(THREE[0], priority=2),
    replace(THREE[1], arrival_time=1),
    replace(THREE[2], arrival_time=1, priority=1),
]


def test_slots_and_blocks_show_the_same_memory_equally_large() -> None:
    """Notebook 02, step 1: A has 5 tokens in 12 reserved slots above, in 2 blocks of 4 slots below."""
    picture = compare(played(THREE, 6, 1), played(THREE, 6, 2), ("reserved", "blocks"))[1]
    assert texts(layers(picture)["first-pool-heading"])[0] == "24 slots"
    assert texts(layers(picture)["second-pool-heading"]) == ["6 blocks", "of 4 slots"]
    slots = {name: tooltips(part)[0] for name, part in layers(picture).items() if name.startswith("first-block-")}
    assert len(slots) == 24
    used = [f"slot {slot}: held by A" + ", reserved" * (slot > 5) for slot in range(1, 13)]
    assert [slots[f"first-block-{slot}"] for slot in range(1, 13)] == used
    assert tooltips(layers(picture)["second-block-4"])[0] == "block 4: held by A, 1 of 4 slots used, taken in this step"
    places = [re.findall(r"[\d.]+", str(layers(picture)[name].get("transform"))) for name in PLACED]
    assert [x for x, _ in places[:2]] == [x for x, _ in places[2:]]
    assert "slots reserved, not used: A 7, B 3" in picture.text_alternative


PLACED = ("first-block-5", "first-block-21", "second-block-2", "second-block-6")


def test_a_step_in_time_is_as_wide_as_its_tokens_and_shows_every_wait() -> None:
    """Notebook 05: A waits for 33 tokens beside a whole prompt, and never for more than 9 beside chunks of 8."""
    requests = [TimedRequest(0, "A", [65] * 4, max_tokens=12), TimedRequest(2, "B", list(range(32)), max_tokens=3)]
    runs = [played(requests, 20, 4), played(requests, 20, 5, long_prefill_token_threshold=8)]
    picture = compare(runs[0], runs[1], ("whole", "chunks"))[11]
    waits = [
        [texts(wait)[0] for wait in of_class(picture, f"{side}-timeline-rows-time", "mv-wait")]
        for side in ("first", "second")
    ]
    assert waits == [
        ["33 tokens to the next", "first after 33 tokens"],
        ["9 tokens", "9 tokens", "9 tokens", "9 tokens", "first after 36 tokens"],
    ]
    for side, run in zip(("first", "second"), runs, strict=True):
        columns = layers(picture)[f"{side}-timeline-columns-time"].iter(f"{SVG}rect")
        widths = [float(str(column.get("width"))) for column in columns]
        per_token = [width / record["total"] for width, record in zip(widths, run.steps, strict=True)]
        assert max(per_token) - min(per_token) < 0.05
        assert sum(widths) == pytest.approx(596, abs=0.5)
    assert "longest wait for a next token: A 33, B 2" in picture.text_alternative
    assert "longest wait for a next token: A 9, B 2" in picture.text_alternative


def test_a_run_that_stalls_ends_with_a_frame_that_says_why() -> None:
    recording = played(THREE, 4, 2)
    film = time_machine(recording)
    assert len(film) == len(recording.steps) + 1
    assert film[5].sentence.startswith("Stuck: nothing can move. 0 of 4 blocks are free, and A needs 1 more, B")
    assert texts(layers(film[5])["budget"]) == ["stuck: nothing can move"]
    assert len(of_class(film[5], "running", "mv-alert-line")) == 3
    assert not of_class(film[4], "budget", "mv-stuck")
    assert of_class(film[0], "timeline-rows", "mv-stuck"), "the timeline shows it from the start"
    assert len(time_machine(played(THREE, 4, 3))) == len(played(THREE, 4, 3).steps)


def test_priorities_and_the_plan_that_is_undone_are_drawn() -> None:
    """Notebook 03: PRIORITY preempts A, whose token was planned; FCFS preempts C, whose token was not."""
    film = compare(played(RANKED, 4, 3), played(RANKED, 4, 3, policy="priority"), ("FCFS", "PRIORITY"))
    picture = film[2]
    assert texts(layers(picture)["second-waiting"]) == ["A, priority 2"]
    assert texts(layers(picture)["second-running"]) == ["B, priority 0", "C, priority 1"]
    assert len(of_class(picture, "second-budget", "mv-undone")) == 1
    assert "undone: A 1" in texts(layers(picture)["second-budget"])
    assert not of_class(picture, "first-budget", "mv-undone")
    assert "plan undone: A 1" in picture.text_alternative
    assert "so C is preempted" in picture.sentence
    assert "so A is preempted" in picture.sentence
    assert "priority" not in time_machine(played(THREE, 6, 3))[0].svg()


def test_hits_and_block_tables_are_drawn() -> None:
    """Notebook 04: B finds 4 of its 8 tokens, C 8 of 9; B's second block equals A's and is another block."""
    shared = list(range(100, 108))
    again = [TimedRequest(0, "A", shared, 1), TimedRequest(1, "B", shared, 1), TimedRequest(1, "C", [*shared, 1], 1)]
    picture = time_machine(played(again, 12, 4))[1]
    assert texts(layers(picture)["budget-hits"]) == ["B 4", "C 8"]
    assert [texts(layers(picture)[f"table-{place}"]) for place in (0, 1)] == [["B", "1", "3"], ["C", "1", "2", "4"]]
    assert described(picture)["in the prefix cache, not computed"] == "B 4, C 8"


def test_the_mark_of_the_first_difference_lies_above_the_cursor() -> None:
    picture = compare(small(), small(caching=False), ("on", "off"))[0]
    names = list(layers(picture))
    assert names.index("first-timeline-mark") > names.index("first-timeline-cursor")
    assert "they part" in [name for _, name in picture.legend["timeline"]]
