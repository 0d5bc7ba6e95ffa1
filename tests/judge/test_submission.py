"""Files read from a folder or a zip, and submissions that are refused."""

import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from mini_vllm_labs.classroom.judge import archives, submission
from mini_vllm_labs.classroom.judge.archives import Starter, SubmissionError, one_per_phase, phase_of
from mini_vllm_labs.classroom.judge.report import file_name, safe_cell
from mini_vllm_labs.classroom.judge.submission import Submission, name_submissions, read_submission
from mini_vllm_labs.classroom.judge.worker import SubmissionDir


def make_zip(path: Path, entries: dict[str, bytes], mode: int = stat.S_IFREG | 0o644) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


def make_tar(path: Path, entries: dict[str, bytes], **facts: object) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for fact, value in facts.items():
                setattr(info, fact, value)
            archive.addfile(info, io.BytesIO(content))
    return path


def packed_by(method: int) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("phase1.py", bytes(10**6))
        return path

    return make


def zip64(path: Path, *, damaged: bool = False, num_entries: int = 1) -> Path:
    """Write a small zip with the end records of a zip over 4 GiB, as some programs always do."""
    content = make_zip(path, {"phase1.py": b"x"}).read_bytes()
    num_bytes, offset = struct.unpack("<LL", content[-10:-2])
    record = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, num_entries, num_entries, num_bytes, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, offset + num_bytes, 1)
    path.write_bytes(content[:-22] + (bytes(56) if damaged else record) + locator + content[-22:])
    return path


def no_zip(path: Path) -> Path:
    path.write_bytes(b"no zip")
    return path


def read(path: Path) -> Submission:
    return read_submission(path, "ada")


COUNTED = (
    *("starter.py", "starter-1.py", "starter_1.py", "starter(1).py", "starter (2).py", "starter 2.py", "STARTER.PY"),
    *("starter copy.py", "starter - Copy (2).py", "Copy of starter.py", "starter-v2.py", "starter_final.py"),
    "ada_starter-2-1.py",
)


@pytest.mark.parametrize(
    ("path", "phase"),
    [
        ("labs/phase3_preemption/starter.py", 3),
        ("work/labs/phase1_scheduler_step/starter.py", 1),
        ("work/labs/phase13_scheduling_policies/starter.py", 13),
        ("phase2_block_pool.py", 2),
        ("starter4.py", 4),
        ("phase_6.py", 6),
        ("alice_phase1.py", 1),
        ("Ada Lovelace_123_assignsubmission_file_phase2_block_pool.py", 2),
        ("smithbob_LATE_77_4242_starter3-1.py", 3),
        ("phase4 (2).py", 4),
        ("phase14.py", 14),
        ("phase15.py", None),
        ("test_phase1.py", None),
        ("phase1.py.txt", None),
        ("labs/phase15_x/starter.py", 0),
        *((name, 0) for name in COUNTED),
        *((f"labs/phase3_preemption/{name}", 3) for name in COUNTED),
        ("labs/phase6_gpu_runner/starter_triton.py", None),
        ("labs/phase3_preemption/starter_of_a_friend.py", None),
        *((name, 1) for name in ("Phase1.py", "PHASE1.PY", "phase01.py", "phase1_2026_11_29.py", "2026_phase1.py")),
        ("labs/phase3_preemption/test_task3_1_priority_queue.py", None),
        ("__MACOSX/labs/phase3_preemption/starter.py", None),
    ],
)
def test_which_phase_a_path_is(path: str, phase: int | None) -> None:
    assert phase_of(PurePosixPath(path)) == phase


@pytest.mark.parametrize("name", [*COUNTED, "my solution.py"])
def test_the_content_says_the_phase_where_the_name_does_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("import x\nclass RecomputePreemption:\n    pass\n")
    assert (read(path).starters, read(path).error) == ({3: path.read_bytes()}, "")
    assert read(path).notes == [f"{name} does not name its phase; its functions belong to phase 3."]
    for text in ("", "def f(): pass", "def clamp(): pass\ndef choose_victim(): pass", "def select_logits_rows(): pass"):
        path.write_text(text)
        assert f"the submission contains no starter (only {name}): call it phase1.py" in read(path).error


@pytest.mark.parametrize("name", ["phase1.py.txt", "starter.ipynb", "Phase 15.py", "scheduler.py"])
def test_a_name_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    packed = make_zip(tmp_path / "x.zip", {f"work/{name}": b"def clamp(): pass", "work/test_x.py": b"x"})
    assert f"(only work/{name})" in read(packed).error


def test_a_folder_and_a_zip_give_the_same(tmp_path: Path) -> None:
    files = {"labs/phase1_scheduler_step/starter.py": b"one", "labs/phase4_prefix_cache/starter.py": b"four"}
    for name, content in (files | {"labs/conftest.py": b"attack"}).items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    zipped = make_zip(tmp_path / "x.zip", {f"ada/{name}": content for name, content in files.items()})
    assert read(tmp_path / "folder").starters == read(zipped).starters == {1: b"one", 4: b"four"}
    assert read(tmp_path / "folder" / "labs" / "phase1_scheduler_step").starters == {1: b"one"}


OUTSIDE = ("../phase1.py", "/phase1.py", "a/../../phase1.py", "C:/phase1.py", "..\\phase1.py")
SYMLINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
REFUSED: list[tuple[Callable[[Path], Path], str]] = [
    *((lambda path, name=name: make_zip(path, {name: b"x"}), "points outside it") for name in OUTSIDE),
    (lambda path: make_tar(path, {"../phase1.py": b"x"}), "points outside it"),
    (lambda path: make_zip(path, {"phase1.py": b"/etc/passwd"}, stat.S_IFLNK | 0o777), "is a link"),
    (lambda path: make_tar(path, {"phase1.py": b""}, **SYMLINK), "is a link"),
    (lambda path: make_zip(path, {"phase1.py": b"0" * 50_000_000}), "larger than 1 MiB"),
    (lambda path: make_zip(path, {"phase1.py": b"1", "old/phase1.py": b"2"}), "two files for phase 1"),
    (packed_by(zipfile.ZIP_BZIP2), "other than deflate"),
    (packed_by(zipfile.ZIP_LZMA), "other than deflate"),
    (lambda path: zip64(path, damaged=True), "end of the zip is damaged"),
    (lambda path: zip64(path, num_entries=2**40), "more than 20,000 files in the zip"),
    (no_zip, "cannot be read"),
    (lambda path: path, "is not a folder, a zip"),
]


def test_a_small_zip_that_ends_like_a_huge_one_is_read(tmp_path: Path) -> None:
    assert read(zip64(tmp_path / "x.zip")).starters == {1: b"x"}


@pytest.mark.parametrize(("make", "reason"), REFUSED)
def test_an_archive_is_refused_with_the_reason(tmp_path: Path, make: Callable[[Path], Path], reason: str) -> None:
    found = read(make(tmp_path / "x.zip"))
    assert (found.starters, reason in found.error) == ({}, True), found.error


def test_a_tar_is_read_like_a_zip(tmp_path: Path) -> None:
    files = {"ada/labs/phase1_scheduler_step/starter.py": b"one", "ada/other.txt": b"x", "phase2.py": b"two"}
    packed = make_tar(tmp_path / "x.tar.gz", files)
    assert read(packed).starters == {1: b"one", 2: b"two"}
    content = packed.read_bytes()
    packed.write_bytes(content[:-8] + bytes(4) + content[-4:])  # another checksum
    assert "incorrect data check" in read(packed).error


def test_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (archives, submission):
        monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    entries = {f"{number}.txt": b"" for number in range(4)}
    assert "more than 3 files" in read(make_zip(tmp_path / "x.zip", entries)).error
    assert "more than 3 files" in read(make_tar(tmp_path / "x.tar.gz", entries)).error
    for name in entries:
        (tmp_path / name).touch()
    assert "more than 3 files" in read(tmp_path).error


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_a_link_or_a_device_in_a_folder_is_refused(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    path = tmp_path / "work" / "phase1.py"
    path.parent.mkdir()
    match kind:
        case "symlink":
            path.symlink_to(secret)
        case "hard link":
            os.link(secret, path)
        case "pipe":
            os.mkfifo(path)
    found = read(tmp_path / "work")
    assert found.starters == {}
    assert "phase1.py is" in found.error


def test_a_linked_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "phase1.py").write_text("x")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "labs").symlink_to(tmp_path / "other")
    assert "no starter" in read(tmp_path / "work").error


def test_a_starter_by_itself(tmp_path: Path) -> None:
    for name in ("alice_phase3.py", "alice.py"):
        (tmp_path / name).write_bytes(b"x = 1")
    assert read(tmp_path / "alice_phase3.py").starters == {3: b"x = 1"}
    assert "only alice.py" in read(tmp_path / "alice.py").error


def test_a_tar_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_TAR_BYTES", 10**6)
    bomb = make_tar(tmp_path / "x.tar.gz", {"big.bin": bytes(3 * 10**6), "phase1.py": b"x"})
    assert "unpacks to more than" in read(bomb).error


def test_a_zip_that_lists_too_much_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_zip(tmp_path / "x.zip", {f"{number}{'x' * 200}": b"" for number in range(50)})
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 10_000)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    assert "list of files is larger" in read(path).error


def test_reading_stops_at_the_second_file_of_a_phase() -> None:
    def found() -> Iterator[Starter]:
        yield 1, PurePosixPath("phase1.py"), b"1"
        yield 1, PurePosixPath("old/phase1.py"), b"2"
        pytest.fail("a third file was read")

    with pytest.raises(SubmissionError, match="two files for phase 1"):
        one_per_phase(found())


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe\x1b"))
    (folder).mkdir()
    (folder / "phase1.py").write_bytes(b"x")
    (named,) = name_submissions([folder])
    assert named.name == "???"
    assert read_submission(named.path, named.name).starters == {1: b"x"}


def test_submissions_of_the_same_name_get_different_names(tmp_path: Path) -> None:
    for name in ("ada/work", "bob/work"):
        (tmp_path / name).mkdir(parents=True)
    found = name_submissions([tmp_path / "ada" / "work", tmp_path / "bob" / "work"])
    assert [handed_in.name for handed_in in found] == ["ada_work", "bob_work"]
    with pytest.raises(SubmissionError, match="several submissions are named"):
        name_submissions([tmp_path / "ada" / "work"] * 2)


def test_names_do_no_harm_and_tell_learners_apart() -> None:
    assert safe_cell("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert file_name("../../etc/x\x1b[2J").startswith("_.._etc_x__2J-")
    assert file_name("ada") == "ada"
    assert len(file_name("\u6f22" * 83).encode()) < 140
    assert len({file_name(name) for name in ("a/b", "a_b", "a:b", "\u6f22" * 83, "\u6f22" * 84)}) == 5


def test_a_starter_that_imports_the_course_does_nothing_but_say_so() -> None:
    with SubmissionDir({5: b"import mini_vllm_labs\n"}) as folder:
        (starter,) = folder.path.glob("labs/phase5_*/starter.py")
        text = starter.read_text(encoding="utf-8")
    with pytest.raises(ImportError, match="line 1 imports mini_vllm_labs: your answer must be in your own file"):
        exec(text)
