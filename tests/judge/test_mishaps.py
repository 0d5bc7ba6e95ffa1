"""Full disks, devices, bombs, truncated files and changed settings each lead to a message, and nothing is lost."""

import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mini_vllm_labs.classroom.judge import archives
from mini_vllm_labs.classroom.judge.class_run import Record, RecordedResult, RecordError, recorded_settings
from mini_vllm_labs.classroom.judge.report import write_whole
from mini_vllm_labs.classroom.judge.results import SubmissionGrade
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.cli.main import app
from tests.grading.checkout import solution
from tests.judge.test_class_run import handed_in
from tests.judge.test_submission import make_tar, make_zip, read

SETTINGS = JudgeSettings("mishaps", situations=1, phases=(1,))
SUMMARY = SubmissionGrade("x").result()
RESULT: RecordedResult = {"summary": SUMMARY, "feedback": "x" * 3000, "seconds": 0.0, "digests": {}}


@contextmanager
def files_of_at_most(num_bytes: int) -> Iterator[None]:
    """Limit the size of every file, so that the disk looks full to the process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def judge(*arguments: object) -> tuple[int, str]:
    told = CliRunner().invoke(app, ["judge", "--no-jail", "--phase", "1", "--situations", "1", *map(str, arguments)])
    return told.exit_code, " ".join(told.output.split())


def test_a_record_on_a_full_disk_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record = Record(SETTINGS, path)
    record.add("ada", RESULT)
    with files_of_at_most(5000), pytest.raises(RecordError, match="The results so far are kept: free some"):
        record.add("bob", RESULT)
    record.add("eve", RESULT)
    assert list(Record(SETTINGS, path).results) == ["ada", "eve"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    write_whole(tmp_path / "x", "old")
    with files_of_at_most(100), pytest.raises(ValueError, match="The file's earlier contents are unchanged"):
        write_whole(tmp_path / "x", "new" * 1000)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "old")]


def test_a_full_disk_costs_no_points_that_were_given(tmp_path: Path) -> None:
    """Whichever file cannot be written, all others are written, including the gradebooks."""
    handed_in(tmp_path, ada=solution(1))
    (tmp_path / "roster").write_text("submission,ID\nada,7\n")
    names = ("csv", "json", "canvas", "moodle", "feedback")
    for lost in names:
        out = tmp_path / f"without_{lost}"
        partial = out / "feedback" / ".ada.txt.partial" if lost == "feedback" else out / f".{lost}.partial"
        partial.mkdir(parents=True)  # so that only writing this file fails
        places = [word for name in names for word in (f"--{name}", out / name)]
        code, told = judge(tmp_path / "ada", *places, "--roster", tmp_path / "roster", "--seed", "s")
        assert (code, "40/40" in told, "cannot be written" in told, "--seed s" in told) == (2, True, True, True)
        written = {name for name in names if (out / name).is_file() or (out / name / "ada.txt").is_file()}
        assert written == set(names) - {lost}


@pytest.mark.parametrize("option", ["--json", "--csv", "--resume", "--canvas"])
@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero", "pipe"])
def test_a_device_is_no_place_for_results(tmp_path: Path, option: str, device: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    handed_in(tmp_path, ada=solution(1))
    code, told = judge(tmp_path / "ada", option, tmp_path / device)
    assert (code, "a device or a pipe" in told) == (2, True), told
    assert not Path(device).is_file()


def test_devices_are_no_input_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    handed_in(tmp_path, ada=solution(1))
    for device in ("/dev/zero", str(tmp_path / "pipe")):
        code, told = judge(tmp_path / "ada", "--roster", device, "--csv", tmp_path / "p", "--moodle", tmp_path / "m")
        assert (code, "is not a regular file" in told) == (2, True), told
        told = CliRunner().invoke(app, ["collect", device, str(tmp_path / "out")]).output
        assert "is not a regular file" in told
        assert "is not a folder, a zip" in read(Path(device)).error


def test_two_results_need_two_files(tmp_path: Path) -> None:
    handed_in(tmp_path, ada=solution(1))
    code, told = judge(tmp_path / "ada", "--csv", tmp_path / "x", "--json", tmp_path / "." / "x")
    assert (code, "need separate files" in told) == (2, True)


@pytest.mark.parametrize(
    "options",
    ["--situations 2", "--situations 5", "--seconds 10", "--minutes 10", "--phase 1-2", "--phase 7", "--seed other"],
)
def test_a_run_goes_on_with_its_settings_or_not_at_all(tmp_path: Path, options: str) -> None:
    handed_in(tmp_path, ada=solution(1))
    path, settings = tmp_path / "run.jsonl", replace(SETTINGS, seconds=3.0, minutes=3.0)
    Record(settings, path)
    before = path.read_bytes()
    code, told = judge(tmp_path / "ada", "--resume", path, *options.split())
    assert (code, f"a different {options.split()[0]}" in told) == (2, True), told
    told = CliRunner().invoke(app, ["judge", str(tmp_path / "ada"), "--resume", str(path)]).output
    assert "contains a run with --no-jail" in " ".join(told.split()), "isolation is not dropped because a file says so"
    assert (path.read_bytes(), recorded_settings(path)) == (before, settings)


def test_a_zip_may_not_hide_its_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_ENTRIES", 50)
    content = make_zip(tmp_path / "x.zip", {f"{number}.txt": b"" for number in range(60)}).read_bytes()
    at = content.rfind(archives.END_OF_DIRECTORY)
    few, many = content[at + 8 : at + 12], struct.pack("<HH", 5, 5)
    (tmp_path / "y.zip").write_bytes(content[: at + 8] + many + content[at + 12 :])
    assert few != many
    assert "more than 50 files" in read(tmp_path / "y.zip").error
    locator = archives.LOCATOR_64 + bytes(16)
    for length in (0, 1, 2**16 - 1):
        end = content[at:-2] + struct.pack("<H", length) + b"x" * length
        (tmp_path / "z.zip").write_bytes(content[:at] + locator + end)
        assert "end of the zip is damaged" in read(tmp_path / "z.zip").error


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_that_is_cut_says_so_wherever_it_is_cut(tmp_path: Path, kind: str) -> None:
    entries = {"phase1.py": os.urandom(3000), "phase2.py": os.urandom(3000)}
    make = make_zip if kind == "zip" else make_tar
    content = make(tmp_path / f"x.{kind}", entries).read_bytes()
    for cut in (*range(100, len(content) - 30, 501), len(content) - 30):
        (tmp_path / f"y.{kind}").write_bytes(content[:cut])
        found = read(tmp_path / f"y.{kind}")
        assert (found.starters, "truncated" in found.error) == ({}, True), (cut, found.error)
        told = CliRunner().invoke(app, ["collect", str(tmp_path / f"y.{kind}"), str(tmp_path / "out")])
        assert (told.exit_code, (tmp_path / "out" / "handed_in").exists()) == (2, False)
