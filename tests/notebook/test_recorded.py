"""Recorded runs of the reference are marked in every form, free of code, and included in the student edition."""

import lzma
from dataclasses import field, make_dataclass, replace
from pathlib import Path

import pytest

from mini_vllm import EngineConfig
from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm_labs.classroom.student_edition.edition import compose, leaks, secret_lines
from mini_vllm_labs.fresh.jobs import play_workload
from mini_vllm_labs.notebook import Lab, Notice, compare, figures, same_answers, watch
from mini_vllm_labs.notebook.panels import require_result
from mini_vllm_labs.notebook.record_codec import from_json, to_json
from mini_vllm_labs.notebook.recorded_mark import mark_of
from mini_vllm_labs.notebook.records import FOLDER, key_of, read_lines
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

MARK = mark_of(1)
# The first run in 01_scheduler_step.
REQUESTS = [TimedRequest(0, name, [ord(name)] * 8, max_tokens=4) for name in "ABC"]
CONFIG = EngineConfig(max_num_seqs=4, max_num_batched_tokens=12, max_model_len=12, block_size=4, num_gpu_blocks=21)


def test_a_recorded_run_is_the_references_with_a_mark() -> None:
    live, kept = (require_result(Lab(1, impl).play(REQUESTS, CONFIG)) for impl in ("solution", "starter"))
    assert kept == replace(live, recorded=MARK)
    assert not live.recorded


def test_a_result_survives_its_record() -> None:
    live = Lab(1, "solution").play(REQUESTS, CONFIG)
    assert from_json(to_json(live)) == live
    assert from_json(to_json({3: (b"x", 1.5, None, range(3))})) == {3: (b"x", 1.5, None, range(3))}
    with pytest.raises(TypeError, match=r"cannot record a \w*Path; only"):
        to_json(Path())


def test_a_changed_cell_has_no_record_and_says_so() -> None:
    changed = Lab(1, "starter").play(REQUESTS, replace(CONFIG, max_num_seqs=3))
    assert isinstance(changed, Notice)
    assert "Not recorded" in str(changed)
    assert "when phase 1 is written" in str(changed)


def test_a_key_depends_on_the_phases_and_not_on_whose_code_it_is() -> None:
    keys = [
        key_of(len, (REQUESTS, CONFIG, parse_lineup(text)))
        for text in ("solution:1-2", "starter:1-2", "starter:1,solution:2", "solution:1-3")
    ]
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]


def test_a_setting_that_the_course_gets_later_changes_no_record() -> None:
    later = make_dataclass("EngineConfig", [("later", int, field(default=3))], bases=(EngineConfig,), frozen=True)
    config = {"num_gpu_blocks": 9}
    assert key_of(play_workload, (later(**config),)) == key_of(play_workload, (EngineConfig(num_gpu_blocks=9),))
    assert key_of(play_workload, (later(**config, later=4),)) != key_of(play_workload, (later(**config),))
    assert to_json(parse_lineup("solution:1")) == {"!": "Lineup", "scheduler": "solution"}
    six, eight = parse_lineup("solution:1-5"), parse_lineup("solution:1-5,solution:7")
    assert key_of(play_workload, (six,)) != key_of(play_workload, (eight,))


def test_every_form_of_a_recorded_result_is_marked() -> None:
    lab = Lab(1, "starter")
    kept = require_result(lab.play(REQUESTS, CONFIG))
    players = [watch(kept), compare(kept, kept, ("one", "other"))]
    for shown in players:
        picture: Picture = shown.picture()  # type: ignore[union-attr]
        assert MARK in picture.svg()
        assert picture.text_alternative.startswith(MARK)
        assert "(recorded)" in picture.title
    for text in (repr(figures({"a": kept})), str(same_answers(kept, kept)), repr(lab.ablation())):
        assert text.startswith(MARK)
    assert MARK in figures({"a": kept})._repr_mimebundle_()["text/html"]


def test_where_a_phase_is_written_its_runs_are_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With phase 1 written, runs that need phase 2 are still recordings, and the mark says until when."""
    monkeypatch.setattr(
        "mini_vllm_labs.notebook.missing.unwritten_tasks",
        lambda phase: [f"Phase {phase}, task 1: x"] if phase > 1 else [],
    )
    mixed = Lab(2, "solution:1,starter:2")
    alone = require_result(mixed.play(REQUESTS, CONFIG, phases=1))
    assert not alone.recorded
    assert "when phase 2 is written" in repr(mixed.ablation())


def test_the_records_hold_no_code() -> None:
    edition = {path.name: lzma.decompress(path.read_bytes()) for path in FOLDER.glob("*.xz")}
    assert leaks(edition, secret_lines(CHECKOUT)) == []
    # Leave out the keys, because a digest may end in "def".
    texts = {path.name: "\n".join(read_lines(path).values()) for path in FOLDER.glob("*.xz")}
    assert not [name for name, text in texts.items() if "def " in text or "import " in text]


def test_the_student_edition_has_all_records_in_a_megabyte() -> None:
    kept = {name: content for name, content in compose().items() if name.startswith("labs/observed/notebooks/")}
    assert set(kept) == {path.relative_to(CHECKOUT).as_posix() for path in FOLDER.glob("*.xz")}
    assert sum(map(len, kept.values())) < 2**20
