"""`mini-vllm bring`: a zip of the browser's lab in a local checkout."""

import zipfile
from pathlib import Path

import pytest

from cli.bring import bring_into, starters_in
from course.starter_status import starter_path

NAME = "labs/phase1_scheduler_step/starter.py"


def exported(place: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(place / "my_work.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return place / "my_work.zip"


def test_what_is_replaced_is_kept_and_named(tmp_path: Path) -> None:
    for phase in (1, 2):
        starter_path(phase, tmp_path).parent.mkdir(parents=True)
        starter_path(phase, tmp_path).write_bytes(b"# local work\n")
    same = starter_path(2, tmp_path).relative_to(tmp_path).as_posix()
    files = {NAME: b"# from the tab\n", same: b"# local work\n", "notebooks/00_tour.ipynb": b"{}"}
    work = exported(tmp_path, files)
    (line,) = bring_into(tmp_path, work)
    (kept,) = (path for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert line == f"{NAME}: replaced; what was there is in {kept.relative_to(tmp_path).as_posix()}"
    assert kept.read_bytes() == b"# local work\n"
    assert (tmp_path / NAME).read_bytes() == b"# from the tab\n"
    assert not (tmp_path / "notebooks").exists()
    assert bring_into(tmp_path, work) == ["Nothing to bring: all starters are as they are in the zip."]


def test_each_replaced_version_is_kept_and_a_missing_starter_is_written(tmp_path: Path) -> None:
    starter_path(1, tmp_path).parent.mkdir(parents=True)
    versions = [f"# version {number}\n".encode() for number in range(3)]
    lines = [bring_into(tmp_path, exported(tmp_path, {NAME: version})) for version in versions]
    assert lines[0] == [f"{NAME}: written; there was none"]
    kept = [path.read_bytes() for path in (tmp_path / "kept").rglob("starter.py")]
    assert sorted(kept) == versions[:2]


@pytest.mark.parametrize("place", [40, 60, 150, 400, -30])
def test_a_damaged_zip_is_refused_in_words(tmp_path: Path, place: int) -> None:
    work = tmp_path / "my_work.zip"
    with zipfile.ZipFile(work, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(NAME, b"".join(f"# {number * number}\n".encode() for number in range(300)))
    damaged = bytearray(work.read_bytes())
    damaged[place] ^= 0xFF
    work.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"is no zip of the lab, or a damaged one|is no export of the lab"):
        starters_in(work)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"notes.txt": b""}, "is no export of the lab"),
        ({NAME: b"#" * (2**20 + 1)}, "larger than 1 MiB"),
        ({f"../{NAME}": b"# out of it"}, "is no export of the lab"),
        (None, "is no zip of the lab, or a damaged one"),
    ],
)
def test_what_is_no_export_is_refused_in_words(tmp_path: Path, files: dict[str, bytes] | None, words: str) -> None:
    work = exported(tmp_path, files or {})
    if files is None:
        work.write_bytes(b"PK no zip")
    with pytest.raises(ValueError, match=words):
        starters_in(work)
