"""The committed notebooks: clean files, cells that run with the reference, and folded answers that are true."""

from pathlib import Path
from typing import Any

import pytest

from course.fresh.jobs import WorkloadRun
from course.notebook import Notice
from course.terminal.step_line import step_line
from course.workloads.ablation import SETTINGS, ablation_requests, run_lineup
from mini_vllm.assembly.lineup import ELECTIVE_NAMES
from tests.notebook.cells import NOTEBOOKS, OF_ELECTIVES, OF_PHASES, notebook_of, run_cells
from tests.notebook.files import read


def test_every_phase_has_a_notebook() -> None:
    assert [path.stem[:2] for path in OF_PHASES] == ["01", "02", "03", "04", "05", "06"]
    assert [path.stem[3:] for path in OF_ELECTIVES] == [name.replace(" ", "_") for name in ELECTIVE_NAMES]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_committed_and_cell_ids_are_unique(path: Path) -> None:
    cells = read(path).cells
    assert len({cell.id for cell in cells}) == len(cells)
    for cell in cells:
        if cell.cell_type == "code":
            assert cell.outputs == [], cell.id
            assert cell.execution_count is None, cell.id


@pytest.mark.parametrize("path", [*OF_PHASES, *OF_ELECTIVES], ids=lambda path: path.stem)
def test_the_reference_gives_no_notice(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, shown = run_cells(path, "solution", monkeypatch)
    assert [value for value in shown if isinstance(value, Notice)] == []
    printed = capsys.readouterr().out
    assert "DIFFERENT" not in printed
    assert "This needs" not in printed


def lines(run: WorkloadRun) -> list[str]:
    """Return each step as text."""
    states = (run.recording.state(step) for step in range(len(run.recording.steps)))
    return [" ".join(step_line(state).split()) for state in states]


def table(run: WorkloadRun, step: int, request: str) -> list[int]:
    """Return a request's blocks as they were in a step."""
    return next(share["blocks"] for share in run.recording.steps[step]["scheduled"] if share["id"] == request)


def first_token_step(run: WorkloadRun, request: str) -> int:
    """Return the step in which a request samples its first token."""
    return next(record["step"] for record in run.recording.steps if request in record["sampled"])


def column(figures: Any, heading: str) -> list[str]:
    """Return a figure of each run."""
    return [figures_of_run[heading] for figures_of_run in figures.rows.values()]


@pytest.fixture
def cells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the cells of a phase's notebook define, with the reference."""
    return run_cells(notebook_of(request.param), "solution", monkeypatch)[0]


@pytest.mark.parametrize("cells", [1], indirect=True)
def test_answers_of_the_scheduler_step(cells: dict[str, Any]) -> None:
    steps = lines(cells["played"])
    assert [line.split("free ")[1] for line in steps[:3]] == ["A:8p", "A:1 B:8p", "A:1 B:1 C:8p"]
    assert len(steps) == 6
    assert "C:8p" in lines(cells["played_narrow"])[4]


@pytest.mark.parametrize("cells", [2], indirect=True)
def test_answers_of_the_block_pool(cells: dict[str, Any]) -> None:
    reserved, paged = cells["reserved"], cells["paged"]
    assert [len(table(reserved, 0, name)) for name in "AB"] == [12, 8]
    assert "C:4p" in lines(reserved)[5]
    assert [len(table(paged, step, "A")) for step in (0, 1, 4, 5)] == [1, 2, 2, 3]
    passing = cells["lab"].play(cells["passing"], cells["config"])
    assert passing.recording.state(0).pool.free_queue == [6, 2, 1, 5, 4, 3]
    assert table(passing, 1, "C") == [6, 2, 1, 5]
    five, four = cells["runs"]["5 blocks"], cells["runs"]["4 blocks"]
    assert ["C:" in line for line in lines(five)] == [True, *[False] * 4, *[True] * 4]
    assert len(lines(four)) == 5
    assert four.stalled


@pytest.mark.parametrize("cells", [3], indirect=True)
def test_answers_of_preemption(cells: dict[str, Any]) -> None:
    assert cells["stalled"].stalled
    steps = lines(cells["whole"])
    assert "C PREEMPTED for B" in steps[1]
    assert "1 free A:1" in steps[5]
    assert "C:5p" in steps[9]
    its_own = lines(cells["lab"].play(cells["four"], cells["replace"](cells["config"], num_gpu_blocks=6)))
    assert "1 free A:1 B:1 | C PREEMPTED for itself" in its_own[1]
    assert ["C:5p" in its_own[5], "D:4p" in its_own[9]] == [True, True]
    assert "C PREEMPTED for B" in lines(cells["fcfs"])[2]
    assert cells["priority"].recording.steps[2]["preempted"] == [("A", "B", 1)]
    figures = cells["figures"](cells["pools"])
    assert column(figures, "computed") == ["64", "76", "80", "96", "88"]
    assert column(figures, "preempted") == ["0", "1", "2", "4", "4"]
    assert column(figures, "steps") == ["13", "17", "21", "33", "41"]


@pytest.mark.parametrize("cells", [4], indirect=True)
def test_answers_of_the_prefix_cache(cells: dict[str, Any]) -> None:
    panel = cells["chain_panel"](cells["prompt"])
    for block_size, num_kept in ((4, 2), (2, 5)):
        panel.set(position=11, block_size=block_size)
        assert f"B: {num_kept} blocks shared with A" in panel.picture().sentence
    again = cells["lab"].play(cells["again"], cells["roomy"])
    assert "B:4p+4hit C:1p+8hit" in lines(again)[1]
    assert "B:9p" in lines(cells["without"])[3]
    assert "A:9p B:1p+8hit" in lines(cells["cached"])[0]
    assert len({*table(cells["cached"], 0, "A"), *table(cells["cached"], 0, "B")}) == 4
    both = cells["figures"]({"without": cells["without"], "with": cells["cached"]})
    assert [column(both, "steps"), column(both, "computed")] == [["6", "3"], ["22", "14"]]
    assert "B PREEMPTED for A" in lines(cells["mindful"])[5]
    assert ["B:13p" in lines(cells["forgetful"])[9], "B:5p+8hit" in lines(cells["mindful"])[9]] == [True, True]
    assert column(cells["figures"](cells["runs"]), "from the cache") == ["12", "12", "8", "4", "0"]
    assert cells["runs"]["8 tokens"].recording.state(0).pool.free_queue == [5, 6, 4, 3, 2, 1]


@pytest.mark.parametrize("cells", [5], indirect=True)
def test_answers_of_chunked_prefill(cells: dict[str, Any]) -> None:
    assert "A:1 B:32p" in lines(cells["whole"])[2]
    assert ["A:1 B:8p" in line for line in lines(cells["chunked"])[2:7]] == [True] * 4 + [False]
    thresholds = cells["figures"](cells["thresholds"])
    assert column(thresholds, "largest step") == ["5", "9", "17", "33"]
    assert column(thresholds, "steps") == ["12"] * 4
    first = [
        next(r["step"] for r in run.recording.steps if "B" in r["sampled"]) for run in cells["thresholds"].values()
    ]
    assert first == [9, 5, 3, 2]
    alone = {n: cells["replace"](cells["small"], long_prefill_token_threshold=n) for n in (0, 10, 32, 6)}
    assert [len(lines(cells["lab"].play(cells["alone"], config))) for config in alone.values()] == [3, 3, 3, 5]
    assert "A:24p B:8p" in lines(cells["on"])[0]
    assert lines(cells["off"])[0].endswith("A:24p")
    for chunking in (True, False):
        config = cells["replace"](cells["medium"], long_prefill_token_threshold=10, enable_chunked_prefill=chunking)
        assert "A:10p B:10p" in lines(cells["lab"].play(cells["pair"], config))[0]
    guards = cells["figures"](cells["guards"])
    assert column(guards, "preempted") == ["3", "0", "1"]
    assert column(guards, "computed") == ["101", "71", "83"]
    assert column(guards, "steps") == ["18", "20", "18"]
    assert column(guards, "from the cache") == ["0", "0", "0"]
    assert "C:8p" in lines(cells["guards"]["guard"])[15]
    config = cells["replace"](SETTINGS, admission_guard=False)
    stage = run_lineup(cells["lab"].lineup(), ablation_requests(), config)
    assert stage.num_preemptions == 13
    assert round(1e3 * sum(stage.first_token_latencies) / stage.num_requests) == 46


@pytest.mark.parametrize("cells", [6], indirect=True)
def test_answers_of_the_gpu_runner(cells: dict[str, Any]) -> None:
    assert "A:16p B:8p+8hit" in lines(cells["chats"])[0]
    first, second = (cells["lab"].lay_out(cells["chats"], step) for step in (0, 1))
    assert [len(first.rows), {line[-1] for line in first.rows}] == [24, {""}]
    assert first.rows[16][3:5] == ["8", "24"]
    assert [[line[4], line[-1]] for line in second.rows] == [["32", ""], ["33", "yes"], ["40", ""], ["41", "yes"]]
    tight = lines(cells["tight"])
    assert "B PREEMPTED for itself" in tight[16]
    assert ["B:16p+8hit" in tight[41], "B:9p" in tight[42]] == [True, True]
    assert [len(lines(cells["chats"])), len(tight)] == [41, 67]
    assert cells["tight"].token_ids == cells["chats"].token_ids
    question = cells["questions"][0]
    assert cells["alone"].token_ids[question] == cells["beside"].token_ids[question]
    assert cells["alone"].token_ids[question] != cells["chats"].token_ids[question][:30]
