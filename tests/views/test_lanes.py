"""Tokens ahead: two time lanes that match the records, and each draft drawn with its fate."""

import copy
from dataclasses import replace
from itertools import pairwise

import pytest

from mini_vllm_labs.pictures.drafts import draft_film
from mini_vllm_labs.pictures.lanes import lanes, lanes_panel
from mini_vllm_labs.pictures.lanes.schedule import APPLY, PLAN, TEXT, Schedule, Task, schedule_of
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.runs.traces.drafts import STAND_IN, DraftCounts, Verdict, verdicts_of
from mini_vllm_labs.runs.traces.recording import Recording
from tests.views.runs import ahead, small
from tests.views.svg_reader import count, described, is_sound, texts, tree

RUNS = {"in turn": ahead(0), "ahead": ahead(0, asynchronous=True)}
NUM_TURNS = len(RUNS["in turn"].steps)


def ends(tasks: list[Task]) -> dict[tuple[str, int], tuple[float, float]]:
    return {(task.kind, task.step): (task.start, task.end) for task in tasks}


def of(name: str, plan_ms: float, compute_ms: float) -> Schedule:
    return schedule_of(RUNS[name], plan_ms, compute_ms)


@pytest.mark.parametrize("times", [(1, 9), (4, 8), (8, 8), (12, 5)])
@pytest.mark.parametrize("name", RUNS)
def test_each_side_does_one_thing_at_a_time_and_in_the_order_of_the_records(
    name: str, times: tuple[float, float]
) -> None:
    schedule = of(name, *times)
    for tasks in (schedule.engine, schedule.runner):
        assert all(one.end <= two.start for one, two in pairwise(tasks))
    engine, runner = ends(list(schedule.engine)), ends(list(schedule.runner))
    for record in RUNS[name].steps:
        step = record["step"]
        if record["scheduled"]:
            start, end = runner["compute", step]
            assert engine[PLAN, step][1] <= start
            assert end <= engine[APPLY, step][0] < engine[TEXT, step][0]
    order = [(task.kind, task.step) for task in schedule.engine if task.kind != TEXT]
    expected: list[tuple[str, int | None]] = []
    for record in RUNS[name].steps:
        expected.append((PLAN, record["step"]))
        expected += [(APPLY, record["update_of"])] * (record["update_of"] is not None)
    assert order == expected


def test_in_turn_every_part_is_waited_for() -> None:
    for plan_ms, compute_ms in ((4, 8), (12, 5)):
        schedule = of("in turn", plan_ms, compute_ms)
        assert schedule.total == NUM_TURNS * (plan_ms + compute_ms)
        assert schedule.most_in_flight == 1
        assert schedule.idle_share == pytest.approx(plan_ms / (plan_ms + compute_ms))


def test_ahead_the_longer_side_decides() -> None:
    hidden, visible = of("ahead", 4, 8), of("ahead", 12, 5)
    assert hidden.total == NUM_TURNS * 8 + 4, "the first plan and the last update have nothing to hide behind"
    assert [start for start, _ in hidden.idle] == [0.0, hidden.total - 2], "the runner never waits in between"
    assert visible.total == pytest.approx(NUM_TURNS * 12 + 6), "and one plan of a step that is empty"
    assert len(visible.idle) > NUM_TURNS // 2
    assert hidden.most_in_flight == visible.most_in_flight == 2


def wasted() -> Recording:
    """Return the run that is planned ahead, changed so that its last step is wasted."""
    steps = copy.deepcopy(list(RUNS["ahead"].steps))
    for record in steps[-2:]:
        record["finished"] = []
    last = next(record for record in reversed(steps) if record["scheduled"])
    last["finished"] = [(share["id"], "stop", None) for share in last["scheduled"]]
    last["sampled"] = {}
    return replace(RUNS["ahead"], steps=steps)


def test_a_step_in_vain_is_marked() -> None:
    assert sum(task.in_vain for task in schedule_of(wasted(), 4, 8).runner) == 1
    assert "in vain" not in lanes({"ahead": RUNS["ahead"]}).text_alternative


@pytest.mark.parametrize("width", [300, 460, 720, 1000, 1400])
def test_every_width_is_drawn_within_it(width: float) -> None:
    assert is_sound(lanes(RUNS, width=width))
    assert lanes(RUNS, width=width).width <= max(460, width)


def test_the_sentence_follows_the_knobs() -> None:
    panel = lanes_panel(RUNS)
    assert "all of it is hidden" in panel.picture().sentence
    panel.set(plan_ms=12.0, compute_ms=5.0)
    assert "7 ms longer than the runner" in panel.picture().sentence
    assert "waits for the engine in each step" in lanes({"in turn": RUNS["in turn"]}).sentence
    panel.set(plan_ms=0.5)
    assert "all of it is hidden" in panel.picture().sentence


def test_times_and_runs_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        lanes({})
    with pytest.raises(ValueError, match="must be greater than 0"):
        lanes(RUNS, 0, 8)


def verdict(drafts: list[int], sampled: list[int], **other: object) -> Verdict:
    usual = {"num_computed": 10, "num_scheduled": 1 + len(drafts), "kept": sampled, "blocks": [3, 5, 4, 9]}
    return Verdict(request_id="A", drafts=drafts, sampled=sampled, **(usual | other))  # type: ignore[arg-type]


def test_a_verdict_counts_the_drafts_up_to_the_first_wrong_one() -> None:
    judged = verdict([7, 8, 9], [7, 1])
    assert (judged.num_accepted, judged.num_rejected) == (1, 2)
    assert (judged.num_planned, judged.num_computed_after) == (14, 12)
    counts = DraftCounts().plus([judged, verdict([], [4]), verdict([], [])])
    assert (counts.num_shares, counts.num_tokens, counts.tokens_per_step) == (2, 3, 1.5)
    assert (counts.proposed, counts.accepted) == ((1, 1, 1), (1, 0, 0))
    assert counts.plus([verdict([1, 2, 3, 4], [1, 2, 3, 4, 5])]).accepted == (2, 1, 1, 1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_share_begins_where_the_kept_tokens_end(asynchronous: bool) -> None:
    """Shares begin where kept tokens end, even with async scheduling, where the plan counted the previous step's drafts
    as correct."""
    recording = ahead(asynchronous=asynchronous)
    computed: dict[str, int] = {}
    num_corrected = 0
    for record, verdicts in zip(recording.steps, verdicts_of(recording.steps), strict=True):
        for share, judged in zip(record["scheduled"], verdicts, strict=True):
            num_corrected += share["computed"] != judged.num_computed
            if share["kind"] == "running" and not judged.in_vain:
                assert judged.num_computed == computed[share["id"]]
            computed[share["id"]] = judged.num_computed_after if judged.sampled else judged.num_planned
            assert list(judged.sampled[: len(judged.kept)]) == list(judged.kept)
    assert (num_corrected > 0) is asynchronous
    kept = [token for verdicts in verdicts_of(recording.steps) for judged in verdicts for token in judged.kept]
    assert len(kept) == sum(len(tokens) for record in recording.steps for _, tokens in record["output"]) > 30


def test_the_film_begins_where_both_kinds_of_drafts_are() -> None:
    film = draft_film(ahead())
    first = film[film.first]
    assert player(film).step == film.first > 0
    assert count(first, "mv-accepted")
    assert count(first, "mv-rejected")
    assert player(film, 0).step == 0
    assert draft_film(small()).first == 0, "a run without drafts begins at its beginning"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_draft_is_drawn_as_what_became_of_it(asynchronous: bool) -> None:
    recording = ahead(asynchronous=asynchronous)
    film = draft_film(recording)
    seen = 0
    for picture, verdicts in zip(film.pictures, verdicts_of(recording.steps), strict=True):
        accepted = sum(judged.num_accepted for judged in verdicts)
        drafts = sum(len(judged.drafts) for judged in verdicts)
        known = [judged for judged in verdicts if judged.sampled and STAND_IN not in judged.drafts]
        wrong = sum(judged.num_rejected > 0 for judged in known)
        assert count(picture, "mv-accepted") == accepted
        assert count(picture, "mv-rejected") == wrong
        assert count(picture, "mv-unread") == drafts - accepted - wrong
        assert count(picture, "mv-kept-token") == sum(len(judged.sampled) for judged in verdicts)
        assert "-1" not in texts(tree(picture)), "a stand-in is no token"
        facts = described(picture)
        for judged in verdicts:
            label = recording.info.label(judged.request_id)
            assert facts[f"{label}, accepted"] == str(judged.num_accepted)
            assert facts[f"{label}, kept"] == str(len(judged.kept))
            assert facts[f"{label}, slots taken back"] == str(judged.num_rejected if judged.sampled else 0)
        seen += accepted
    assert seen > 5
    assert described(film[len(film) - 1])["drafts accepted"].startswith(f"{seen} of ")


def in_vain() -> tuple[Recording, int]:
    """A run planned ahead in which a step serves a request that had already ended, and that step's number."""
    recording = ahead(0, asynchronous=True)
    steps = copy.deepcopy(list(recording.steps))
    late = next(k for k, record in enumerate(steps) if record["scheduled"] and steps[k + 1]["scheduled"])
    steps[late]["finished"], steps[late]["sampled"] = [(steps[late]["scheduled"][0]["id"], "stop", None)], {}
    return replace(recording, steps=steps), late


def test_a_share_in_vain_says_so() -> None:
    recording, late = in_vain()
    assert verdicts_of(recording.steps)[late][0].in_vain
    usual = verdicts_of(ahead(0, asynchronous=True).steps)
    assert not any(one.in_vain for verdicts in usual for one in verdicts), "no stop token"
