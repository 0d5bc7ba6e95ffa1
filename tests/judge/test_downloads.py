"""Bulk downloads become one submission per learner, and nothing is written elsewhere."""

import io
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from classroom.export.downloads import collect
from classroom.export.gradebooks import read_roster
from classroom.judge.archives import SubmissionError
from classroom.judge.submission import name_submissions, read_submission
from cli.main import app
from tests.judge.test_submission import make_zip


def packed(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.py", content)
    return buffer.getvalue()


CANVAS = {
    "lovelaceada_LATE_11_901_phase1.py": b"ada one",
    "lovelaceada_11_902_phase2_block_pool-1.py": b"ada two",
    "babbagecharles_12_903_work.zip": packed(phase1=b"charles"),
}
MOODLE = {
    "Ada Lovelace_31_assignsubmission_file/labs/phase1_scheduler_step/starter.py": b"ada one",
    "Ada Lovelace_31_assignsubmission_file/phase2.py": b"ada two",
    "Charles Babbage_32_assignsubmission_file_phase1.py": b"charles",
    "Ada Lovelace_33_assignsubmission_file/phase1.py": b"the other Ada",
}


def starters(folder: Path) -> dict[str, dict[int, bytes]]:
    found = name_submissions(sorted(folder.iterdir()))
    return {one.name: read_submission(one.path, one.name).starters for one in found}


def test_canvas(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    collected = collect(make_zip(tmp_path / "x.zip", CANVAS), tmp_path / "out")
    assert (collected.platform, collected.ids) == ("Canvas", {"lovelaceada": "11", "babbagecharles": "12"})
    assert starters(tmp_path / "out") == {
        "lovelaceada": {1: b"ada one", 2: b"ada two"},
        "babbagecharles": {1: b"charles"},
    }


def test_moodle_with_two_learners_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    collected = collect(make_zip(tmp_path / "x.zip", MOODLE), tmp_path / "out")
    assert collected.platform == "Moodle"
    assert starters(tmp_path / "out") == {
        "Ada Lovelace": {1: b"ada one", 2: b"ada two"},
        "Ada Lovelace_33": {1: b"the other Ada"},
        "Charles Babbage": {1: b"charles"},
    }


def test_the_command_writes_a_roster_that_the_judge_reads(tmp_path: Path) -> None:
    download = make_zip(tmp_path / "x.zip", CANVAS | {"readme.txt": b"x"})
    told = CliRunner().invoke(app, ["collect", str(download), str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "left out: readme.txt" in told.output
    assert read_roster(tmp_path / "out" / "roster.csv").ids == {"lovelaceada": "11", "babbagecharles": "12"}
    again = CliRunner().invoke(app, ["collect", str(download), str(tmp_path / "out")])
    assert (again.exit_code, "a new or an empty folder" in again.output) == (2, True)


@pytest.mark.parametrize("name", ["../x_1_2_phase1.py", "/x_1_2_phase1.py"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(SubmissionError, match="leads out of it"):
        collect(make_zip(tmp_path / "x.zip", CANVAS | {name: b"x"}), tmp_path / "out")


def test_what_is_no_download_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"no zip")
    for download in (tmp_path / "no.zip", tmp_path / "none.zip", make_zip(tmp_path / "x.zip", {"phase1.py": b"x"})):
        told = CliRunner().invoke(app, ["collect", str(download), str(tmp_path / "out")])
        assert told.exit_code == 2, told.output
        assert not (tmp_path / "out" / "handed_in").exists()
