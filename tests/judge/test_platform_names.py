"""Names in the platforms' formats, written by small models of the platforms, are read back as learner and phase."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mini_vllm_labs.classroom.export.downloads import collect
from tests.judge.test_downloads import starters
from tests.judge.test_submission import make_zip

Writer = Callable[[str, bool, int, int, str], str]
PHASE_FILES = (
    *("phase{}.py", "Phase{}.py", "PHASE{}.PY", "phase{}-1.py", "phase{} (2).py", "phase{}_2026_11_29.py"),
    *("2026_11_29_phase{}.py", "23_901_phase{}.py", "Copy of phase{}.py", "phase_{}.py", "starter{}.py", "phase0{}.py"),
)


def canvas(name: str, is_late: bool, user_id: int, attachment_id: int, file: str) -> str:
    """Name a file as Canvas's `ContentZipper.get_filename` and `add_upload_submission` do."""
    name = re.sub(r"_(\d+)_", r"\1", name).lower()
    head = re.sub(r"\W", "", "_".join([name, *["LATE"] * is_late, str(user_id)]))
    return f"{head}_{attachment_id}_" + re.sub(r'[\x00/\\:*?"<>|]+', "_", file)


def anonymous(name: str, is_late: bool, user_id: int, attachment_id: int, file: str) -> str:
    return canvas("LATE_anon" if is_late else "anon", False, 0, attachment_id, file).replace(
        *("late_anon_0", f"LATE_anon_{code(user_id)}") if is_late else ("anon_0", f"anon_{code(user_id)}"), 1
    )


def code(user_id: int) -> str:
    """Return an id in Canvas's format: five letters and digits, sometimes only digits."""
    return f"{user_id:05}" if user_id % 3 == 0 else f"kX{user_id:03}"


def moodle(name: str, is_late: bool, user_id: int, attachment_id: int, file: str) -> str:
    return f"{name.replace('/', '_')}_{user_id}_assignsubmission_file/{file}"


def moodle_flat(name: str, is_late: bool, user_id: int, attachment_id: int, file: str) -> str:
    return f"{name.replace('/', '_')}_{user_id}_assignsubmission_file_{file}"


learners = st.lists(
    st.tuples(
        st.from_regex(r"[ .,'-]*[aäBz山12L][aäBz山 _.,'12L-]{0,8}", fullmatch=True),
        st.booleans(),
        st.integers(100, 899),
        st.integers(1, 14),
        st.sampled_from(PHASE_FILES),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda learner: learner[2],
)


@pytest.mark.parametrize("writer", [canvas, anonymous, moodle, moodle_flat])
@given(learners)
def test_names_are_read_back(writer: Writer, class_of: list[tuple[str, bool, int, int, str]]) -> None:
    # Canvas searches for `_digits_` only once: some hostile names still contain it afterwards, and some names end with
    # `_digits`.
    assume(not any(re.search(r"^\W*_|_\d+(_|$)", re.sub(r"[^\w]", "", name)) for name, *_ in class_of))
    entries = {
        writer(name, is_late, number, 9000 + number, file.format(phase)): bytes([phase])
        for name, is_late, number, phase, file in class_of
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        out.mkdir()
        found = collect(make_zip(Path(folder, "x.zip"), entries), out)
        read = {found.ids[name]: content for name, content in starters(out).items()}
    shown = code if writer is anonymous else str
    assert (found.skipped, read) == (
        [],
        {shown(number): {phase: bytes([phase])} for _, _, number, phase, _ in class_of},
    )


def test_a_hostile_name_takes_no_place_of_another_learner(tmp_path: Path) -> None:
    eve = canvas("lovelaceada__11___900__", False, 23, 901, "phase1.py")
    assert eve.startswith("lovelaceada_11_900_"), "what Canvas leaves of it"
    for number, entries in enumerate([{eve: b"wrong"}, {}]):
        entries |= {"lovelaceada_11_900_phase1.py": b"right"} | ({} if number == 0 else {eve: b"wrong"})
        (out := tmp_path / str(number)).mkdir()
        found = collect(make_zip(tmp_path / "x.zip", entries), out)
        assert starters(out)["lovelaceada"] == {1: b"right"}
        assert len(found.skipped) == 1
