"""The pictures of a server's engine are correct whatever the size of the page or the pool."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from mini_vllm.config import EngineConfig
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.serving.live.drawing.live_run import LiveInfo, LiveRun
from mini_vllm_labs.serving.live.drawing.pool_part import PoolMap, runs, shelf_for
from mini_vllm_labs.serving.live.drawing.scene import figures_of, picture_of
from mini_vllm_labs.serving.live.drawing.sent_page import SentPage
from mini_vllm_labs.serving.live.drawing_process import WantedPicture
from mini_vllm_labs.serving.live.recent_steps import facts_of, steps_since
from tests.serving.page.runs import CROWDED, Watched
from tests.views.svg_reader import described, layers, marked, texts, tooltips

SIZES = [(340, 560), (460, 300), (720, 480), (1100, 1200)]


@pytest.fixture(scope="module")
def crowded() -> Watched:
    watched = Watched.build()
    watched.run(420)
    return watched


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("step", [None, 0, 200])
def test_a_picture_is_sound_and_as_large_as_asked(crowded: Watched, width: int, height: int, step: int | None) -> None:
    run, facts = crowded.live_run(), facts_of(crowded.engine)
    picture = picture_of(run, WantedPicture(step, width, height, with_text=True), facts)
    root = ElementTree.fromstring(picture.svg(with_legend=False))
    assert picture.width == width
    assert picture.height <= height or height < 400
    assert not [part for part in root.iter() if part.get("id")]
    assert {"budget", "running", "waiting", "timeline-rows"} <= layers(picture).keys()
    shown = run.state(run.newest if step is None else step)
    assert shown.record is not None
    lines = described(picture)
    assert lines["what happened"] == picture.sentence
    assert lines["running"].split() == [run.info.label(name) for name, *_ in shown.record["running_after"]]
    tiles = tooltips(layers(picture)["running"])
    assert [tile.split(":")[0] for tile in tiles] == lines["running"].split()[: len(tiles)]


def test_all_blocks_are_in_the_picture_whatever_their_number(crowded: Watched) -> None:
    run, facts = crowded.live_run(), facts_of(crowded.engine)
    strips = picture_of(run, WantedPicture(None, 720, 480), facts)
    assert len([name for name in layers(strips) if name.startswith("block-")]) == facts["num_blocks"]
    for num_blocks in (1000, 8192, 200_000):
        run.info = replace(run.info, num_blocks=num_blocks)
        run._state.info = run.info
        picture = picture_of(run, WantedPicture(None, 720, 480), facts)
        held = tooltips(layers(picture)["pool-held"])
        assert len(held) == len([table for table in run.state(run.newest).tables.values() if table])
        assert "holds" in held[0]
        assert texts(layers(picture)["pool-heading"])[0] == f"{num_blocks:,} blocks"
        assert picture.height <= 480


@pytest.mark.parametrize("num_blocks", [1, 7, 500, 2000, 8192, 100_000])
def test_a_map_has_a_square_for_every_block_or_for_as_many_as_it_says(num_blocks: int) -> None:
    pool = PoolMap.fitting(num_blocks, 600, 150)
    assert pool.height <= 150
    assert pool.num_cells * pool.per_cell >= num_blocks > (pool.num_cells - 1) * pool.per_cell
    assert pool.cells([1]) == [0]
    assert pool.cells([num_blocks]) == [pool.num_cells - 1]
    assert (pool.per_cell == 1) == (num_blocks <= 10_000)


def test_squares_are_drawn_as_one_line_for_each_run() -> None:
    assert runs([0, 1, 2, 5, 9, 10, 11], per_line=10) == [(0, 2), (5, 5), (9, 9), (10, 11)]
    pool = PoolMap(100, 1, 10, 10)
    [data] = [part.get("d") for part in ElementTree.fromstring(pool.squares([0, 1, 2, 10])).iter()]
    assert data == "M0 4.5h29M0 14.5h9"


def test_strips_are_only_for_pools_that_one_can_read() -> None:
    info = LiveInfo({}, {}, 128, 16, 256)
    shelf = shelf_for(info, 720, 200)
    assert shelf is not None
    assert shelf.cell * 16 >= 16
    assert shelf.height <= 200
    assert shelf_for(replace(info, num_blocks=1000), 720, 200) is None
    assert shelf_for(replace(info, block_size=1), 720, 200) is None


def test_two_requests_of_one_time_never_share_a_letter() -> None:
    watched = Watched.build()
    watched.run(1500)
    run = watched.live_run()
    assert len({run.info.numbers[name] for name in run.info.titles}) < len(run.info.titles), "some are given again"
    for step in range(run.oldest, run.newest, 7):
        letters = [run.info.label(name) for name in run.recent(step)]
        assert len(letters) == len(set(letters))


def test_a_page_gets_only_the_changes(crowded: Watched) -> None:
    run, facts, viewer = crowded.live_run(), facts_of(crowded.engine), SentPage()
    kept: dict[str, str] = {}
    for step in range(300, 340):
        look = WantedPicture(step, 720, 480)
        picture = picture_of(run, look, facts)
        message = json.loads(json.dumps(viewer.message(run, look, picture, step)))
        if "svg" in message:
            kept = {}
        assert all(kept.get(name) != content for name, content in message["layers"].items())
        kept |= message["layers"]
        assert kept == {layer.name: layer.content for layer in picture.layers}
        assert message["figures"]["step"] == step
    assert viewer.message(run, look, picture, step)["layers"] == {}


def test_the_followed_request_has_a_row_and_a_place_in_its_queue_in_any_crowd() -> None:
    watched = Watched.build(replace(CROWDED, max_num_seqs=4))
    for _ in range(60):
        watched.add()
    watched.engine.step()
    run, facts = watched.live_run(), facts_of(watched.engine)
    last = list(run.info.titles)[-1]
    about = f"request:{run.info.index(last)}"
    assert not marked(picture_of(run, WantedPicture(None, 720, 400), facts), "about", about)
    picture = picture_of(run, WantedPicture(None, 720, 400, follow=last), facts)
    assert marked(picture, "about", about)
    [words] = [text for text in texts(layers(picture)["waiting"]) if "more" in text]
    assert words.endswith(f" more; {run.info.label(last)} is number {len(watched.engine.scheduler.waiting)}")
    assert marked(picture, "request", about.partition(":")[2])


def test_victim_and_requester_have_the_first_rows_and_the_others_are_counted() -> None:
    watched = Watched.build(replace(CROWDED, max_num_seqs=40, num_gpu_blocks=60))
    for _ in watched.steps(300):
        watched.add()
    run, facts = watched.live_run(), facts_of(watched.engine)
    preempting = [step for step in range(run.oldest, run.newest - 9) if run.records[step]["preempted"]]
    assert len(preempting) > 5
    for step in preempting[:20]:
        picture = picture_of(run, WantedPicture(step, 720, 300, with_text=True), facts)
        rows = [tooltips(part)[0].split(":")[0] for name, part in layers(picture).items() if name.startswith("head-")]
        victim, cause, _ = run.records[step]["preempted"][0]
        assert rows[: len({victim, cause})] == [run.info.label(name) for name in dict.fromkeys([victim, cause])]
        assert run.info.label(cause) in described(picture)["they needed a block"].split()
        assert texts(layers(picture)["timeline-heading"])[-1].endswith(" more requests")


def test_drafts_are_marked_one_by_one() -> None:
    watched = Watched.ahead()
    watched.run(200)
    run, facts = watched.live_run(), facts_of(watched.engine)
    found = 0
    for step in range(run.oldest + 2, run.newest):
        verdicts = run.verdicts(step)
        part = layers(picture_of(run, WantedPicture(step, 1100, 480), facts))["drafts"]
        words = [words for words in tooltips(part) if "accepted" in words]
        assert len(words) == len(verdicts)
        wrong = len([one for one in part.iter() if one.get("class") == "mv-alert-line"])
        assert wrong == sum(verdict.num_rejected for verdict in verdicts)
        found += len(verdicts)
    assert found > 50


def test_content_that_is_older_than_all_letters_has_no_colour() -> None:
    watched = Watched.build(EngineConfig(max_num_seqs=4, max_model_len=256, num_gpu_blocks=60, block_size=8))
    for _ in range(2):
        watched.add()
        while watched.engine.has_unfinished_requests():
            watched.engine.step()
    first = watched.live_run()
    facts = facts_of(watched.engine)
    picture = picture_of(first, WantedPicture(None, 720, 480), facts)
    kept = [
        one for name, one in layers(picture).items() if name.startswith("block-") and "still holds" in tooltips(one)[0]
    ]
    assert kept
    assert all(color(0) in ElementTree.tostring(one, encoding="unicode") for one in kept)
    old = next(iter(first.info.titles))
    first.histories.of[old].spans[-1].last -= 1000
    first.histories.of[old].spans[-1].first -= 1000
    later = picture_of(first, WantedPicture(None, 720, 480), facts)
    words = [tooltips(one)[0] for name, one in layers(later).items() if name.startswith("block-")]
    assert sum("content of an earlier request" in text for text in words) == len(kept)


def test_the_page_counts_the_waiting_requests_by_reason_and_tells_the_main_ones() -> None:
    watched, num_told = Watched.build(), 0
    run, facts = LiveRun(facts_of(watched.engine)), facts_of(watched.engine)
    watched.run(100)
    for _ in range(40):
        while len(watched.engine.scheduler.waiting) < 5:
            watched.add()
        steps_since(watched.engine, 0)  # a page is open
        queued = {request.request_id for request in watched.engine.scheduler.waiting}
        watched.engine.step()
        for chunk in steps_since(watched.engine, run.newest + 1):
            run.feed(chunk)
        state = run.state(run.newest)
        assert state.record is not None
        victims = {victim for victim, *_ in state.record["preempted"]}
        started = {share["id"] for share in state.record["scheduled"]}
        shown = figures_of(run, state)["waits"]
        assert sum(number for _, number in shown["counts"]) == len(queued - started | victims)
        if shown["counts"]:
            mark, number = shown["counts"][0]
            assert f" {mark.capitalize()} {number}: " in shown["sentence"]
            assert "chatcmpl" not in shown["sentence"]
            lines = described(picture_of(run, WantedPicture(None, 720, 480, with_text=True), facts))
            assert lines["they wait because"] == shown["sentence"]
            num_told += 1
    assert num_told > 20


def test_steps_that_no_page_shows_are_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched.build()
    monkeypatch.setattr("mini_vllm_labs.serving.live.recent_steps.SHOWN_SECONDS", 0.0)
    steps_since(watched.engine, 0)
    watched.run(3)
    record = watched.live_run().state(0).record
    assert record is not None
    assert "waits" not in record["detail"]
    assert not watched.engine.scheduler.witnesses
