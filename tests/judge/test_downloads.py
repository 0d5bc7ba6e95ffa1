"""Bulk downloads become one submission per learner, and no file is written elsewhere."""

import io
import stat
import unicodedata
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mini_vllm_labs.classroom.export.downloads import collect
from mini_vllm_labs.classroom.export.gradebooks import read_roster
from mini_vllm_labs.classroom.judge.archives import SubmissionError
from mini_vllm_labs.classroom.judge.submission import name_submissions, read_submission
from mini_vllm_labs.cli.main import app
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
    assert told.exit_code == 1, "a file was left out"
    assert "left out: readme.txt (not the name of a Canvas file)" in told.output
    assert read_roster(tmp_path / "out" / "roster.csv").ids == {"lovelaceada": "11", "babbagecharles": "12"}
    again = CliRunner().invoke(app, ["collect", str(download), str(tmp_path / "out")])
    assert (again.exit_code, "a new or empty folder" in again.output) == (2, True)


IN_FOLDERS, FLAT = "{}_{}_assignsubmission_file/{}", "{}_{}_assignsubmission_file_{}"
FORMS = {"Canvas": "{}_{}_900_{}", "Moodle": IN_FOLDERS, "Moodle, flat": FLAT}
ENDS_NOTHING = [
    *("../x_1_2_phase1.py", "/x_1_2_phase1.py", "C:x_1_2_phase1.py", "a/b_31_2/x.py", "x\\y_1_2_phase1.py"),
    *("lovelaceada_11_900_23_901_phase1.py", "lovelaceada_11_900_LATE_23_901_phase1.py", "_11_900_phase1.py"),
    "lovelaceada_11_900_23_assignsubmission_file_phase1.py",
    "lovelaceada_11_assignsubmission_file_23_assignsubmission_file/phase1.py",
    "eve_23_assignsubmission_file_lovelaceada_11_assignsubmission_file/phase1.py",
    *("lovelaceada_11/phase1.py", "lovelaceada_\uff11\uff11_901_phase1.py", "readme.txt"),
    *("lovelaceada_11_900_.", f"lovelaceada_{'1' * 300}_900_phase1.py"),
]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", ENDS_NOTHING)
def test_no_name_ends_the_sorting_or_enters_another_folder(tmp_path: Path, form: str, name: str) -> None:
    right = {
        form.format(learner, number, "phase1.py"): b"right" for learner, number in (("lovelaceada", 11), ("bob", 12))
    }
    for first, entries in enumerate(({name: b"wrong"} | right, right | {name: b"wrong"})):
        out = tmp_path / str(first)
        out.mkdir()
        found = collect(make_zip(tmp_path / "x.zip", entries), out)
        assert {learner: starters(out)[learner] for learner in found.ids if found.ids[learner] in ("11", "12")} == {
            "lovelaceada": {1: b"right"},
            "bob": {1: b"right"},
        }
        assert {path.name for path in tmp_path.iterdir()} <= {"0", "1", "x.zip"}


NAMES = [
    *("Bob", "bob", "Bob.zip", "Bob.tar.gz", "bob.PY", "Bob.", "Bob ", " Bob", "Bob-13", "Bob_LATE"),
    *("\uff22\uff4f\uff42", "..", ".", "CON", "nul.txt", "tests", "__pycache__", "~", "-rf", "*"),
    *("e\u0301", "\xe9", "a" * 300, "\u202eada", "山"),
]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_learner_gets_a_folder_of_their_own_whatever_they_are_called(tmp_path: Path, form: str) -> None:
    (tmp_path / "out").mkdir()
    work = {number: packed(phase2=bytes([number])) for number in range(13, 13 + len(NAMES), 2)}
    entries = {
        form.format(name, number, "work.zip" if number in work else "phase2.py"): work.get(number, bytes([number]))
        for number, name in enumerate(NAMES, 13)
    }
    found = collect(make_zip(tmp_path / "x.zip", entries), tmp_path / "out")
    assert found.skipped == []
    assert {int(found.ids[name]): content for name, content in starters(tmp_path / "out").items()} == {
        number: {2: bytes([number])} for number in range(13, 13 + len(NAMES))
    }
    assert len({unicodedata.normalize("NFKC", name).casefold() for name in found.ids}) == len(NAMES)


def test_the_first_file_of_a_place_stays(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    names = ["a", "A", "a/phase1.py", "b/phase2.py", "b", "B/", "/".join("c" * 99), "phase4 (2).py", "phase5.py"]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in [*names, "phase5.py"]:
            archive.writestr(IN_FOLDERS.format("ada", 1, name), b"" if name.endswith("/") else name)
    found = collect(tmp_path / "x.zip", tmp_path / "out")
    assert len(found.skipped) == 5, found.skipped
    assert starters(tmp_path / "out") == {"ada": {2: b"b/phase2.py", 4: b"phase4 (2).py", 5: b"phase5.py"}}


def test_an_id_belongs_to_one_name(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    found = collect(make_zip(tmp_path / "x.zip", CANVAS | {"eve_11_907_phase3.py": b"x"}), tmp_path / "out")
    assert found.skipped == ["eve_11_907_phase3.py (the id 11 belongs to a different name)"]
    assert sorted(found.ids.values()) == ["11", "12"]


def test_most_names_decide_which_platform_it_was(tmp_path: Path) -> None:
    for entries, out in ((CANVAS, MOODLE), (MOODLE, CANVAS)):
        more = {**entries, **{name.replace("_phase1", "x_phase1"): b"" for name in entries}, **dict([*out.items()][:2])}
        folder = tmp_path / str(entries is MOODLE)
        folder.mkdir()
        assert collect(make_zip(tmp_path / "x.zip", more), folder).platform == (
            "Moodle" if entries is MOODLE else "Canvas"
        )
    with pytest.raises(SubmissionError, match="match both Canvas and Moodle downloads"):
        collect(make_zip(tmp_path / "x.zip", dict([*CANVAS.items()][:2] + [*MOODLE.items()][:2])), tmp_path)


def test_a_damaged_file_costs_itself_and_a_damaged_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in CANVAS:
            archive.writestr(name, b"x")
        archive.filelist[0].header_offset = 2**63
    found = collect(tmp_path / "x.zip", tmp_path / "out")
    assert (len(found.skipped), len(found.ids)) == (1, 2), "one of Ada's two files cannot be read"
    content = make_zip(tmp_path / "y.zip", {**CANVAS, "readme.txt": b"x"}).read_bytes()
    (tmp_path / "y.zip").write_bytes(content.replace(b"readme.txt", b"\0eadme.txt"))
    told = CliRunner().invoke(app, ["collect", str(tmp_path / "y.zip"), str(tmp_path / "empty")])
    assert (told.exit_code, "cannot be collected" in told.output) == (2, True)


ODD: dict[str, tuple[int, int, str]] = {  # how the file is compressed, the member's mode, and the expected message
    "a link": (zipfile.ZIP_STORED, stat.S_IFLNK | 0o777, "this is a link"),
    "a device": (zipfile.ZIP_STORED, stat.S_IFCHR | 0o666, "this is a link"),
    "bzip2": (zipfile.ZIP_BZIP2, 0o644, "the file is compressed with bzip2"),
    "lzma": (zipfile.ZIP_LZMA, 0o644, "the file is compressed with lzma"),
}


@settings(max_examples=30, deadline=None)
@given(members=st.lists(st.sampled_from(["fine", *ODD]), min_size=1, max_size=40))
def test_every_learner_is_in_the_table_and_every_odd_member_is_named(members: list[str]) -> None:
    with TemporaryDirectory() as folder:
        with zipfile.ZipFile(Path(folder, "x.zip"), "w") as archive:
            for number, member in enumerate(members):
                packing, mode, _ = ODD.get(member, (zipfile.ZIP_DEFLATED, 0o644, ""))
                entry = zipfile.ZipInfo(IN_FOLDERS.format(f"learner{number}", number, "phase1.py"))
                entry.external_attr, entry.compress_type = mode << 16, packing
                archive.writestr(entry, b"x")
        told = CliRunner().invoke(app, ["collect", f"{folder}/x.zip", f"{folder}/out"], env={"COLUMNS": "200"})
        rows = Path(folder, "out", "roster.csv").read_text("utf-8").splitlines()
        handed_in = {path.name for path in Path(folder, "out", "handed_in").iterdir()}
    assert len(rows) == 1 + len(members)
    assert handed_in == {f"learner{number}" for number in range(len(members))}
    assert told.exit_code == int(any(member in ODD for member in members))
    reasons = [ODD[member][2] for member in members if member in ODD]
    assert [told.output.count(reason) for reason in set(reasons)] == [reasons.count(reason) for reason in set(reasons)]


def test_what_is_no_download_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"no zip")
    for download in (tmp_path / "no.zip", tmp_path / "none.zip", make_zip(tmp_path / "x.zip", {"phase1.py": b"x"})):
        told = CliRunner().invoke(app, ["collect", str(download), str(tmp_path / "out")])
        assert told.exit_code == 2, told.output
        assert not (tmp_path / "out" / "handed_in").exists()
