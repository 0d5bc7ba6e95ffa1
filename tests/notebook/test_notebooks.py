"""The committed notebooks: clean files, current records, and cells whose output confirms the texts."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import ALL_NAMES, ELECTIVE_NAMES, parse_lineup
from mini_vllm_labs.notebook import Notice
from mini_vllm_labs.notebook.predictions import Revealed
from mini_vllm_labs.notebook.records import FOLDER, read_lines
from mini_vllm_labs.pictures.hash_chain import chain_panel
from mini_vllm_labs.pictures.prediction.question import in_words
from mini_vllm_labs.runs.workloads.ablation import SETTINGS, ablation_requests, run_lineup
from mini_vllm_labs.upkeep.recorded_runs import further_records
from tests.notebook.cells import NOTEBOOKS, Shown, reference_run, run_cells
from tests.notebook.files import load, read

ANSWERS, QUESTIONS, MEASURED = load("answers.yaml"), load("questions.yaml"), "measured"

DECK = "08_spot_the_bug"
"""Its questions are on cards, each with its own run: `test_claims.py`."""


def test_every_phase_has_a_notebook_and_every_notebook_is_listed() -> None:
    phases = len(ALL_NAMES) - len(ELECTIVE_NAMES)
    assert [path.stem[:2] for path in NOTEBOOKS[1:][:phases]] == [f"{phase:02}" for phase in range(1, phases + 1)]
    electives = [path.stem[3:] for path in (*NOTEBOOKS[10:12], *NOTEBOOKS[15:])]
    assert electives == [name.replace(" ", "_").lower() for name in ELECTIVE_NAMES[:6]]
    assert [path.stem for path in NOTEBOOKS if path.stem != DECK] == list(QUESTIONS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_committed_and_cell_ids_are_unique(path: Path) -> None:
    cells = read(path).cells
    assert len({cell.id for cell in cells}) == len(cells)
    for cell in cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None), cell.id


def test_every_text_that_nbval_compares_belongs_to_a_cell() -> None:
    assert set(load("../../notebooks/outputs.yaml")) <= {cell.id for path in NOTEBOOKS for cell in read(path).cells}


def cell_with(begins: str, shown: list[Shown]) -> Shown:
    (found,) = (cell for cell in shown if f"\n{begins}" in f"\n{cell.source}")
    return found


def asked_in(names: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, group in names["guess"].groups.items():
        for question, truth in zip(group.questions, group.truths or (), strict=True):
            assert truth is not None, question.text
            yield name, question.text, in_words(question, truth)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_output_of_the_cells_answers_the_questions_and_bears_out_the_texts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ANSWERS.get(path.stem, {})
    if "written" in answers:
        names, shown = run_cells(path, "solution", monkeypatch, answers["written"])
    else:
        names, shown, _ = reference_run(path)
    assert [cell.value for cell in shown if isinstance(cell.value, Notice)] == []
    assert not re.search("DIFFERENT|This needs |The engine did not finish", "".join(cell.text for cell in shown))
    for begins, patterns in answers.get("shown", {}).items():
        text = cell_with(begins, shown).text
        for pattern in patterns:
            assert re.search(pattern, text), f"{begins}: no {pattern!r} in\n{text}"
    listed: dict[tuple[str, str], str] = {}
    for begins, pairs in QUESTIONS.get(path.stem, {}).items():
        cell = cell_with(begins, shown)
        assert isinstance(cell.value, Revealed), begins
        for question, (answer, pattern) in pairs.items():
            assert re.search(pattern, cell.text), f"{question} {answer}: no {pattern!r} in {begins}\n{cell.text}"
            listed[begins.split('"')[1], question] = answer
    true = {(group, question): answer for group, question, answer in asked_in(names)}
    assert {key: listed[key] for key in listed if listed[key] != MEASURED} == {
        key: answer for key, answer in true.items() if listed.get(key) != MEASURED
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_records_are_what_the_reference_does_today(path: Path) -> None:
    """What the cells run is compared where they run in a kernel, in `notebooks/conftest.py`; this test compares the
    rest."""
    kept, (names, _, made) = read_lines(FOLDER / f"{path.stem}.xz"), reference_run(path)
    made |= further_records(path, names)
    stale = sum(made.get(key) != kept.get(key) for key in made.keys() | kept.keys()) if made else 0
    assert not stale, (
        f"{stale} of {len(made)} runs changed: python -m mini_vllm_labs.upkeep.recorded_runs {path.stem[:2]}"
    )


@pytest.mark.parametrize(("block_size", "num_kept"), [(4, 2), (2, 5)])
def test_small_blocks_share_more_of_two_prompts(block_size: int, num_kept: int) -> None:
    panel = chain_panel(list(range(12)))
    panel.set(position=11, block_size=block_size)
    assert f"B: {num_kept} blocks shared with A" in panel.picture().sentence


def test_the_admission_guard_prevents_the_preemptions_that_chunked_prefill_names() -> None:
    stage = run_lineup(parse_lineup("solution:1-5"), ablation_requests(), replace(SETTINGS, admission_guard=False))
    assert stage.num_preemptions == 13
    assert round(1e3 * sum(stage.first_token_latencies) / stage.num_requests) == 46
