"""The time machine shows the facts of the trace in drawing and text, at every step."""

import json
import re
from xml.etree import ElementTree

import pytest

from course.palette import color
from course.parity.scenario import PUBLIC_TRACES, read_scenarios
from course.traces.recording import Recording
from course.views.alone import alone
from course.views.film import Film
from course.views.picture import Picture
from course.views.text import ranges
from course.views.time_machine import compare, time_machine
from course.views.time_machine.difference import Difference, first_difference
from course.views.time_machine.machine import histories_of, states
from course.views.time_machine.shelf import CELLS, Shelf
from mini_vllm.core.step_record import StepRecord
from tests.views.runs import in_a_huge_pool, large, observed, small

SVG = "{http://www.w3.org/2000/svg}"


def tree(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg())


def layers(picture: Picture) -> dict[str, ElementTree.Element]:
    """Return the layers of the drawing by name, as a reader of the SVG finds them."""
    return {str(part.get("data-layer")): part for part in tree(picture).findall(f"{SVG}g")}


def layer(picture: Picture, name: str) -> ElementTree.Element:
    return layers(picture)[name]


def texts(element: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


def tooltip_of(element: ElementTree.Element) -> str:
    return str(next(element.iter(f"{SVG}title")).text)


def lines(picture: Picture) -> dict[str, str]:
    """Return the text alternative as a mapping, its first line not among it."""
    return dict(line.split(": ", 1) for line in picture.text_alternative.splitlines()[1:])


def numbers(text: str) -> list[int]:
    """Return the numbers behind `ranges`."""
    found: list[int] = []
    for word in text.split():
        first, _, last = word.partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


def test_a_step_that_was_counted_by_hand() -> None:
    """Step 6 of the shipped trace: r0, r1 and r2 decode, r3 is preempted for r0 and loses six blocks."""
    picture = time_machine(observed())[6]
    assert texts(layer(picture, "headline")) == [
        "step 6 of 27",
        "3 running · 5 waiting · 0 done · 12 from the cache · 1 preemption",
    ]
    assert texts(layer(picture, "budget")) == ["r0", "r1", "r2"]
    assert texts(layer(picture, "budget-figure")) == ["3 of 24"]
    assert texts(layer(picture, "running")) == ["r0", "r1", "r2"]
    assert texts(layer(picture, "waiting")) == ["r3", "r4", "r5", "r6", "r7"]
    assert texts(layer(picture, "free-caption")) == ["r3 gave back 20 19 18 17 16 12: last block of a table first"]
    assert [texts(layer(picture, f"free-{place}")) for place in range(4)] == [["17"], ["16"], ["12"], []]
    assert tooltip_of(layer(picture, "block-4")) == "block 4: shared by r1, r2"
    assert tooltip_of(layer(picture, "block-18")) == (
        "block 18: held by r2, 1 of 4 slots used, taken in this step, old content lost"
    )
    assert tooltip_of(layer(picture, "block-12")) == "block 12: free, still holds content of r3"
    assert tooltip_of(layer(picture, "head-3")) == (
        "r3: preempted, 0 of 22 tokens computed, blocks none, preempted in step 6, first token in step 3"
    )
    assert picture.sentence.startswith("r0 needs a block and none is free, so r3 is preempted")


@pytest.mark.parametrize("recording", [small(), large(), observed(), observed("phase_1_alone")], ids=str)
def test_the_drawing_of_every_step_equals_its_record(recording: Recording) -> None:
    film = time_machine(recording)
    assert len(film) == len(recording.steps)
    for record, picture in zip(recording.steps, film.pictures, strict=True):
        info, parts = recording.info, layers(picture)
        shares = [share.get("data-request") for share in parts["budget"].findall(f"{SVG}g")]
        assert shares == [str(info.index(share["id"])) for share in record["scheduled"]]
        waiting = [label for label in texts(parts["waiting"]) if label != "none"]
        assert waiting == [info.label(request_id) for request_id in record["waiting_after"]]
        held = {block for share in record["scheduled"] for block in share["blocks"]}
        shown = [int(name.removeprefix("block-")) for name in parts if name.startswith("block-")]
        drawn = {block: tooltip_of(parts[f"block-{block}"]) for block in shown}
        assert {block for block in held if "held by" in drawn[block] or "shared by" in drawn[block]} == held
        num_hidden = info.num_blocks - len(shown)
        assert sum(": free" in words for words in drawn.values()) + num_hidden == record["free_after_schedule"]
        taken = {block for share in record["scheduled"] for block in share["new_blocks"]}
        assert {block for block, words in drawn.items() if "taken in this step" in words} == taken
        assert {block for block, words in drawn.items() if "old content lost" in words} == set(record["evicted"])
        assert shown[0] == 1, "the null block is never handed out"


@pytest.mark.parametrize("recording", [small(), large(), observed()], ids=str)
def test_the_text_holds_the_facts_of_the_record(recording: Recording) -> None:
    info = recording.info
    for state, picture in zip(states(recording), time_machine(recording).pictures, strict=True):
        record, described = state.record, lines(picture)
        assert record is not None
        assert described["token budget"].startswith(f"{record['total']} of {info.token_budget}")
        for share in record["scheduled"]:
            kind = "decode" if state.is_decode(share) else "prefill"
            assert f"{info.label(share['id'])} {share['n']} {kind}" in described["token budget"]
            assert numbers(described[f"{info.unit}s of {info.label(share['id'])}"]) == share["blocks"]
        assert numbers(described["free queue, next first"]) == state.pool.free_queue
        assert numbers(described["just taken"]) == state.pool.taken
        assert numbers(described["old content lost"]) == record["evicted"]
        assert described["what happened"] == picture.sentence
        for victim, *_ in record["preempted"]:
            assert f"preempted in step {record['step']}" in described[info.label(victim)]
        assert described["waiting"].split() == ([info.label(i) for i in record["waiting_after"]] or ["none"])


def test_prefill_is_hatched_and_decode_is_solid_in_the_requests_colour() -> None:
    recording = observed()
    for state, picture in zip(states(recording), time_machine(recording).pictures, strict=True):
        assert state.record is not None
        for share, drawn in zip(state.record["scheduled"], layer(picture, "budget"), strict=True):
            hatched = any(part.get("class") == "mv-hatch" for part in drawn.iter(f"{SVG}path"))
            assert hatched != state.is_decode(share)
            assert next(drawn.iter(f"{SVG}rect")).get("fill") == color(recording.info.index(share["id"]))


def test_shared_blocks_have_a_band_in_the_colour_of_each_holder() -> None:
    picture = time_machine(observed())[6]
    for name, place in (("block-4", 0), ("table-1", 1), ("table-2", 1)):
        fills = [part.get("fill") for part in layer(picture, name).iter()]
        bands = [fill for fill in fills if fill in (color(1), color(2))][place:]
        assert bands[:2] == [color(1), color(2)], name
        assert any("mv-shared" in str(part.get("class")) for part in layer(picture, name).iter())


def test_the_timeline_holds_every_event_of_the_run() -> None:
    recording = observed()
    rows = layer(time_machine(recording)[0], "timeline-rows")
    marks = [part.get("class", "").split()[-1] for part in rows.iter() if part.get("class")]
    shares = [share for record in recording.steps for share in record["scheduled"]]
    assert marks.count("mv-preempted") == sum(len(record["preempted"]) for record in recording.steps) == 2
    assert marks.count("mv-hit") == sum(bool(share.get("hit")) for share in shares) == 3
    assert marks.count("mv-first") == marks.count("mv-end-of-request") == len(recording.info.titles)
    history = histories_of(recording).of["r3"]
    assert [(span.kind, span.first, span.last) for span in history.spans] == [
        ("waiting", 0, 0),
        ("prefill", 1, 3),
        ("decode", 4, 5),
        ("waiting", 6, 7),
        ("prefill", 8, 8),
        ("decode", 9, 9),
    ]


def test_clicks_on_the_timeline_name_every_step_and_the_cursor_moves() -> None:
    film = time_machine(small())
    columns = [box.get("data-go-to") for box in layer(film[0], "timeline-columns").iter(f"{SVG}rect")]
    assert columns == [str(step) for step in range(len(film))]
    places = [next(layer(picture, "timeline-cursor").iter(f"{SVG}rect")).get("x") for picture in film.pictures]
    assert len(set(places)) == len(film)


def test_everything_that_can_be_followed_is_drawn_with_a_tooltip() -> None:
    film = time_machine(small())
    for picture in film.pictures:
        root = tree(picture)
        tooltips = {part.get("data-about"): tooltip_of(part) for part in root.iter() if part.get("data-about")}
        assert all(tooltips[key] for key, _ in film.follow)
        marked = {part.get("data-request") for part in root.iter()} - {None}
        assert {"0", "1", "2", "3"} <= {name for names in marked for name in str(names).split()}
    assert len(film.follow) == 4 + 20


def all_films() -> list[Film]:
    films = [time_machine(recording) for recording in (small(), large(), observed(), observed("phase_1_alone"))]
    return [*films, compare(small(), small(caching=False))]


def test_every_picture_is_well_formed_without_ids_and_at_most_720_wide() -> None:
    for film in all_films():
        for picture in film.pictures[:: max(1, len(film) // 8)]:
            root = tree(picture)
            assert picture.width <= 720
            assert not [part for part in root.iter() if part.get("id")]
            boxes = list(layer_boxes(root))
            assert max(boxes) <= 720


def layer_boxes(root: ElementTree.Element) -> list[float]:
    """Return the right edges of all rectangles that lie in a layer."""
    edges = []
    for part in root.findall(f"{SVG}g"):
        x = float((re.findall(r"translate\(([\d.]+)", part.get("transform") or "") or ["0"])[0])
        edges += [x + float(box.get("x", 0)) + float(box.get("width", 0)) for box in part.iter(f"{SVG}rect")]
    return edges


def test_sixty_steps_of_a_large_pool_are_saved_in_a_tenth_of_a_megabyte_for_each_width() -> None:
    film = time_machine(large())
    assert 45 <= len(film) <= 75
    encoded = film.encode()
    assert len(alone({"film": encoded})) < 300_000
    assert len(json.dumps(encoded)) < 1_400_000


@pytest.mark.parametrize("num_blocks", [20, 64, 200, 900, 5000, 60000])
@pytest.mark.parametrize("most_lines", [1, 2])
def test_a_pool_of_any_size_fits(num_blocks: int, most_lines: int) -> None:
    shelf = Shelf.fitting([in_a_huge_pool(small(), num_blocks)], 596, most_lines)
    assert shelf.cell in CELLS
    assert shelf.height <= most_lines * shelf.line
    assert max(shelf.place(slot)[0] for slot in range(shelf.num_slots)) + shelf.cell <= 596
    shown = shelf.blocks(4, num_blocks)
    assert max(block for record in small().steps for share in record["scheduled"] for block in share["blocks"]) in shown


def test_a_huge_pool_shows_the_blocks_that_are_used_and_counts_the_others() -> None:
    film = time_machine(in_a_huge_pool(small()))
    (title, *captions) = texts(layer(film[0], "pool-heading"))
    shown = [name for name in layers(film[0]) if name.startswith("block-")]
    assert (title, captions) == ("5,000 blocks", ["of 4 slots", f"{len(shown)} shown"])
    drawn = {part.get("data-about") for part in tree(film[0]).iter()}
    assert {key for key, _ in film.follow} <= drawn


def test_more_requests_than_rows_and_colours() -> None:
    film = time_machine(small(3, 40))
    assert "8 more requests" in film[0].svg()
    assert "mv-mark" in film[len(film) - 1].svg(), "the second round of colours is marked"


def test_recorded_vllm_runs_can_be_drawn_whatever_they_use() -> None:
    named = list(read_scenarios(PUBLIC_TRACES / "named.jsonl"))
    others = {s.kind: s for s in read_scenarios(PUBLIC_TRACES / "random.jsonl.gz") if len(s.steps) < 60}
    assert set(others) == {"base", "spec", "async", "async_spec"}
    for scenario in [*named[::13], *others.values()]:
        recording = Recording.of_scenario(scenario)
        film = time_machine(recording)
        assert len(film) == len(recording.steps)
        tree(film[len(film) - 1])


def test_a_part_of_a_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="record 0 is step 3"):
        Recording.from_steps(observed().steps[3:])


def test_runs_are_compared_and_the_first_difference_is_marked() -> None:
    on, off = small(), small(caching=False)
    film = compare(on, off, ("caching on", "caching off"))
    assert len(film) == max(len(on.steps), len(off.steps))
    difference = first_difference(on.steps, off.steps)
    assert difference == Difference(0, "scheduled")
    assert (
        film[0].sentence
        == "caching on and caching off diverge here: the first difference is in the scheduled requests. "
        "caching on: r2 is admitted: 12 of its 24 tokens are in the prefix cache. Admitted: r0, r1. "
        "r1 computes a chunk, up to token 12 of 20. "
        "caching off: Admitted: r0, r1, r2. r1 computes a chunk, up to token 12 of 20."
    )
    verdict = "caching on and caching off diverged in step 0, in the scheduled requests. caching on: "
    assert film[1].sentence.startswith(verdict)
    assert tree(film[0]).findall(f".//{SVG}path[@class='mv-alert-line mv-difference']")
    assert "caching off\nstep 0 of" in film[0].text_alternative
    blocks = [layer(film[2], f"{prefix}-block-4") for prefix in ("first", "second")]
    assert [tooltip_of(block) for block in blocks] == [
        "block 4: shared by r1, r2",
        "block 4: held by r1",
    ]
    bars = [texts for name in ("first", "second") for texts in layer(film[2], f"{name}-pool-heading-differs")]
    assert len(bars) == 2


def test_a_run_equals_itself_whether_it_comes_from_a_file_or_not() -> None:
    recording = small()
    filed = Recording(recording.info, json.loads(json.dumps(recording.steps)))
    film = compare(recording, filed)
    assert first_difference(recording.steps, filed.steps) is None
    assert {picture.sentence for picture in film.pictures} == {"mine and reference decide the same in every step."}
    assert not tree(film[0]).findall(f".//{SVG}path[@class='mv-alert-line mv-difference']")
    assert "mv-differs" not in film[5].svg()


def test_the_longer_run_goes_on_alone() -> None:
    recording = small()
    steps: list[StepRecord] = list(recording.steps[:-2])
    short = Recording(recording.info, steps)
    film = compare(recording, short)
    before = f"mine and reference decide the same up to here. They diverge in step {len(steps)}."
    assert film[len(steps) - 1].sentence == before
    assert "one run has ended" in film[len(film) - 1].sentence
    assert ", ended<" in film[len(film) - 1].svg()
    with pytest.raises(ValueError, match="both runs are called 'a'"):
        compare(recording, short, ("a", "a"))


def test_ranges_keep_the_order() -> None:
    assert ranges([1, 2, 3, 5, 9, 8, 7, 10, 11]) == "1-3 5 9 8 7 10 11"
    assert ranges([]) == ""
    assert numbers(ranges([4, 5, 6, 1])) == [4, 5, 6, 1]
