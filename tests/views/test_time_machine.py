"""The time machine: drawing and text contain exactly the facts of the trace, at every step."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from mini_vllm.engine.reasons import REASONS
from mini_vllm_labs.pictures.alone import alone
from mini_vllm_labs.pictures.block_life import block_life
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.race import race
from mini_vllm_labs.pictures.text import ranges
from mini_vllm_labs.pictures.time_machine import compare, time_machine
from mini_vllm_labs.pictures.time_machine.compare import RunDifference, first_difference
from mini_vllm_labs.pictures.time_machine.machine import states
from mini_vllm_labs.pictures.time_machine.refusals import BINDS, WHERE, in_words
from mini_vllm_labs.pictures.time_machine.shelf import CELLS, Shelf
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES, read_scenarios
from mini_vllm_labs.runs.traces.recording import Recording
from tests.views.runs import THREE, explained, in_a_huge_pool, in_blocks_of_4, large, observed, queued, small
from tests.views.svg_reader import SVG, count, described, layers, numbers, texts, tooltips, tree


def test_the_reasons_in_drawing_and_text_equal_the_record() -> None:
    recording, seen = explained(), set[str]()
    info, film = recording.info, time_machine(recording)
    for state, picture in zip(states(recording), film.pictures, strict=True):
        assert state.record is not None
        marks = {info.label(i): REASONS[found["reason"]].mark for i, found in state.record["reasons"].items()}
        parts, facts = layers(picture), described(picture)
        groups = [key.removesuffix(")").split(" waiting (") for key in facts if " waiting (" in key]
        assert {label: mark for labels, mark in groups for label in labels.split(", ")} == marks
        below = [*texts(parts["running"]), *texts(parts["waiting"])]
        assert set(marks.values()) <= {*below}
        lacks = {BINDS[mark] for mark in marks.values() if mark in BINDS}
        assert {what for what in WHERE if len(parts[f"{what}-bind"])} == lacks
        assert any(words.startswith("has ") for words in below) == bool(lacks & {"tokens", "blocks"})
        for found in state.record["reasons"].values():
            assert in_words(info, found) in " ".join(texts(parts["why"]))
        seen |= lacks
    assert seen == {*WHERE}
    drawn = tree(film[0]).findall(f".//{SVG}g[@data-layer='waits-steps']//{SVG}g[@data-why]")
    for index, name in enumerate(info.titles):
        steps = [step for part in drawn if part.get("data-request") == str(index) for step in covered(part)]
        assert steps == [record["step"] for record in recording.steps if name in record["reasons"]]
        if steps:
            assert described(film[0])[f"waits of {info.label(name)}"].startswith(f"waited {len(steps)} step")


def test_a_pair_of_runs_marks_its_waits_and_a_brief_film_tells_them() -> None:
    waits, alone_in_text = explained(), time_machine(explained(), brief=True)
    film = compare(waits, small(), ("crowded", "small"))
    for state, pair, brief in zip(states(waits), film.pictures, alone_in_text.pictures, strict=False):
        assert state.record is not None
        marks = {REASONS[found["reason"]].mark for found in state.record["reasons"].values()}
        assert marks <= {*texts(layers(pair)["first-running"]), *texts(layers(pair)["first-waiting"])}
        told = {key.removesuffix(")").partition(" waiting (")[2] for key in described(brief)} - {""}
        assert told == marks
        assert ("why" in layers(brief), "waits-steps" in layers(brief)) == (False, False)


def covered(part: Any) -> range:
    """Return the steps of a bar from its tooltip, `step 3: ...` or `steps 3 to 5: ...`."""
    first, *last = map(int, re.findall(r"\d+", tooltips(part)[0].partition(":")[0]))
    return range(first, (last or [first])[0] + 1)


@pytest.mark.parametrize("recording", [small(), large(), observed(), observed("phase_1_alone")], ids=str)
def test_every_step_in_drawing_and_text_equals_its_record(recording: Recording) -> None:
    info = recording.info
    for state, picture in zip(states(recording), time_machine(recording).pictures, strict=True):
        record, parts, facts = state.record, layers(picture), described(picture)
        assert record is not None
        assert facts["token budget"].startswith(f"{record['total']} of {info.token_budget}")
        for share, drawn in zip(record["scheduled"], parts["budget"].findall(f"{SVG}g"), strict=True):
            index, label = info.index(share["id"]), info.label(share["id"])
            kind = "decode" if state.is_decode(share) else "prefill"
            assert (drawn.get("data-request"), drawn.get("data-kind")) == (str(index), kind)
            assert next(drawn.iter(f"{SVG}rect")).get("fill") == color(index)
            assert any(part.get("class") == "mv-hatch" for part in drawn.iter(f"{SVG}path")) == (kind == "prefill")
            assert f"{label} {share['n']} {kind}" in facts["token budget"]
            assert numbers(facts[f"{info.unit}s of {label}"]) == share["blocks"]
        waiting = [info.label(request_id) for request_id in record["waiting_after"]] or ["none"]
        assert texts(parts["waiting"]) == facts["waiting"].split() == waiting
        shown = [int(name.removeprefix("block-")) for name in parts if name.startswith("block-")]
        assert shown[0] == 1, "the null block is never handed out"
        tips = {block: tooltips(parts[f"block-{block}"])[0] for block in shown}
        held = {block for share in record["scheduled"] for block in share["blocks"]}
        assert {block for block in held if "held by" in tips[block] or "shared by" in tips[block]} == held
        num_hidden = info.num_blocks - len(shown)
        assert sum(": free" in words for words in tips.values()) + num_hidden == record["free_after_schedule"]
        taken = {block for share in record["scheduled"] for block in share["new_blocks"]}
        assert {block for block, words in tips.items() if "taken in this step" in words} == taken
        assert {block for block, words in tips.items() if "old content lost" in words} == set(record["evicted"])
        assert numbers(facts["free queue, next first"]) == state.pool.free_queue
        assert numbers(facts["just taken"]) == state.pool.taken
        assert numbers(facts["old content lost"]) == record["evicted"]
        for victim, *_ in record["preempted"]:
            assert f"preempted in step {record['step']}" in facts[info.label(victim)]


@pytest.mark.parametrize("view", [time_machine, block_life])
def test_everything_that_can_be_followed_is_drawn_with_a_tooltip(view: Callable[[Recording], Film]) -> None:
    film = view(small())
    assert len(film.follow) == 4 + (20 if view is time_machine else 12)
    for picture in film.pictures:
        named = {part.get("data-about"): tooltips(part)[0] for part in tree(picture).iter() if part.get("data-about")}
        followed = [key for key, _ in film.follow if view is time_machine or key.startswith("block:")]
        assert all(named[key] for key in followed)


def test_sixty_steps_of_a_large_pool_are_saved_in_a_tenth_of_a_megabyte_for_each_width() -> None:
    film = time_machine(large())
    assert 45 <= len(film) <= 75
    encoded = film.encode()
    assert len(alone({"film": encoded})) < 300_000
    assert len(json.dumps(encoded)) < 1_400_000


@pytest.mark.parametrize("num_blocks", [20, 64, 200, 900, 5000, 60000])
@pytest.mark.parametrize("max_lines", [1, 2])
def test_a_pool_of_any_size_fits(num_blocks: int, max_lines: int) -> None:
    shelf = Shelf.fitting([in_a_huge_pool(small(), num_blocks)], 596, max_lines)
    assert shelf.cell in CELLS
    assert shelf.height <= max_lines * shelf.line
    assert max(shelf.place(slot)[0] for slot in range(shelf.num_slots)) + shelf.cell <= 596
    shown = shelf.blocks(4, num_blocks)
    assert max(block for record in small().steps for share in record["scheduled"] for block in share["blocks"]) in shown


def test_a_huge_pool_shows_the_blocks_that_are_used_and_counts_the_others() -> None:
    film = time_machine(in_a_huge_pool(small()))
    shown = [name for name in layers(film[0]) if name.startswith("block-")]
    assert texts(layers(film[0])["pool-heading"]) == ["5,000 blocks", "of 4 slots", f"{len(shown)} shown"]
    assert {key for key, _ in film.follow} <= {part.get("data-about") for part in tree(film[0]).iter()}


def test_slots_and_blocks_show_the_same_memory_equally_large() -> None:
    """Notebook 02: 24 slots drawn above have the same positions as 6 blocks of 4 slots drawn below."""
    drawn = layers(compare(in_blocks_of_4(THREE, 6, 1), in_blocks_of_4(THREE, 6, 2), ("reserved", "blocks"))[1])
    places = [str(drawn[f"first-block-{slot}"].get("transform")).split(",")[0] for slot in (5, 21)]
    assert places == [str(drawn[f"second-block-{block}"].get("transform")).split(",")[0] for block in (2, 6)]


def test_a_step_in_time_is_as_wide_as_its_tokens() -> None:
    run = in_blocks_of_4(THREE, 20, 4)
    columns = layers(time_machine(run)[0])["timeline-columns-time"].iter(f"{SVG}rect")
    widths = [float(str(column.get("width"))) for column in columns]
    per_token = [width / record["total"] for width, record in zip(widths, run.steps, strict=True)]
    assert max(per_token) - min(per_token) < 0.05
    assert sum(widths) == pytest.approx(596, abs=0.5)


def test_the_lanes_of_a_race_lie_over_one_axis_and_under_one_cursor_also_after_the_end_of_one() -> None:
    film = race({"short": Recording(small().info, small().steps[:9]), "large": large()})
    drawn = layers(film[len(film) - 1])
    assert [name for name in drawn if name.endswith("timeline-axis")] == ["largetimeline-axis"]
    assert len(large().info.titles) > 8
    assert texts(drawn["largetimeline-heading"])[1:] == [f"{len(large().info.titles) - 8} more requests"]
    for part in ("columns", "cursor"):
        places = [
            [box.get("x") for box in drawn[f"{run}timeline-{part}"].iter(f"{SVG}rect")] for run in ("short", "large")
        ]
        assert places[0] == places[1] != []


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_race_shows_what_its_policy_compares_and_who_overtakes(policy: str) -> None:
    run, overtaken = queued(policy), 0
    for picture in race({policy.upper(): run}).pictures:
        told = described(picture)[policy.upper()]
        of = {"fcfs": "arrival", "priority": "priority"}[policy]
        for tag in re.findall(rf"{of}: ([^,]*)", told)[:1]:
            names, keys = tag.split()[::2], [int(key.lstrip("←")) for key in tag.split()[1::2]]
            overtaken += tag.count("←")
            waiting = re.findall("waiting ([^,]*)", told)[0].replace("none", "").split()
            assert names[: len(waiting)] == waiting
            assert keys[: len(waiting)] == sorted(keys[: len(waiting)])
            assert {*tag.split()} <= {*texts(layers(picture)[f"{policy.upper()}requests"])}
    assert (overtaken > 0) == (policy == "priority")


def test_what_is_written_into_a_row_lies_over_the_lines_of_cursor_and_difference() -> None:
    drawn = layers(time_machine(in_blocks_of_4(THREE, 4, 2))[0])
    for end in ("", "-time"):
        order = [name for name in drawn if name in {f"timeline-{part}{end}" for part in ("cursor", "mark", "names")}]
        assert order == [f"timeline-{part}{end}" for part in ("cursor", "mark", "names")]
        assert not texts(drawn[f"timeline-rows{end}"])
    assert "stuck" in texts(drawn["timeline-names"])
    assert "first after 12 tokens" in texts(drawn["timeline-names-time"])


def test_a_run_that_stalls_has_one_frame_more_and_the_timeline_shows_it_from_the_start() -> None:
    film = time_machine(in_blocks_of_4(THREE, 4, 2))
    assert len(film) == len(in_blocks_of_4(THREE, 4, 2).steps) + 1
    assert count(film[0], "mv-stuck") == 2


def test_recorded_vllm_runs_can_be_drawn_whatever_they_use() -> None:
    named = list(read_scenarios(PUBLIC_TRACES / "named.jsonl"))
    others = {s.kind: s for s in read_scenarios(PUBLIC_TRACES / "random.jsonl.gz") if len(s.steps) < 60}
    assert set(others) == {"base", "spec", "async", "async_spec"}
    for scenario in [*named[::13], *others.values()]:
        film = time_machine(Recording.of_scenario(scenario))
        assert len(film) == len(scenario.steps)
        tree(film[len(film) - 1])


def test_a_part_of_a_trace_and_two_runs_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="record 0 is step 3"):
        Recording.from_steps(observed().steps[3:])
    with pytest.raises(ValueError, match="both runs are called 'a'"):
        compare(small(), small(), ("a", "a"))


def test_a_run_differs_from_another_and_not_from_itself_read_from_a_file() -> None:
    recording = small()
    assert first_difference(recording.steps, small(caching=False).steps) == RunDifference(0, "scheduled")
    filed = Recording(recording.info, json.loads(json.dumps(recording.steps)))
    assert first_difference(recording.steps, filed.steps) is None
    film = compare(recording, filed)
    assert {picture.sentence for picture in film.pictures} == {"mine and reference decide the same in every step."}
    assert count(film[0], "mv-difference") == count(film[5], "mv-differs") == 0


def test_ranges_keep_the_order() -> None:
    assert ranges([1, 2, 3, 5, 9, 8, 7, 10, 11]) == "1-3 5 9 8 7 10 11"
    assert ranges([]) == ""
    assert numbers(ranges([4, 5, 6, 1])) == [4, 5, 6, 1]
