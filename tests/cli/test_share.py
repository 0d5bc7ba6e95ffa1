"""`mini-vllm share` makes a page that states whose code ran; `bring` reads a zip from the browser's lab."""

import base64
import gzip
import re
import zipfile
from pathlib import Path

import pytest

from mini_vllm_labs.cli.bring import bring_into, starters_in
from mini_vllm_labs.cli.share import MAX_BYTES, free_name
from mini_vllm_labs.runs.starter_status import starter_path
from tests.chromium import Pages
from tests.cli.conftest import Commands
from tests.course.surface import solution_path

LINEUP = ("--lineup", "solution:1-5")
NAME = "labs/phase1_scheduler_step/starter.py"
NOT_A_ZIP = "is not a zip exported from the lab, or it is damaged"


def test_a_page_is_small_says_whose_code_ran_and_holds_no_source(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "run #1.html"
    assert '<iframe src="run%20%231.html"' in mini_vllm("share", file, *LINEUP).output
    page = file.read_text(encoding="utf-8")
    assert len(page.encode()) < MAX_BYTES
    assert "1 scheduler step: reference, 2 block pool: reference, 3 preemption: reference" in page
    assert "All 28 steps: 210 tokens computed" in page
    assert "r3 for r0" in page, "the step table is in it as text"
    (packed,) = re.findall(r"'(H4sI[\w+/=]+)'", page)
    everything = page + gzip.decompress(base64.b64decode(packed)).decode()
    assert not re.search(r"(src|href)=.?https?:|@import|url\(", everything)
    for phase in range(1, 6):
        lines = [line.strip() for line in solution_path(phase).read_text(encoding="utf-8").splitlines()]
        assert [line for line in lines if len(line) > 30 and line in everything] == []
    mini_vllm("share", file, "--recorded", "--overwrite")
    assert "no learner&#x27;s code is in it" in file.read_text(encoding="utf-8")


def test_nothing_is_overwritten_without_being_asked(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    file.write_text("mine")
    assert "exists and was not changed" in mini_vllm("share", file, *LINEUP, exit_code=2).output
    assert "not written" in mini_vllm("share", file, "--lineup", "starter:1", "--overwrite", exit_code=1).output.lower()
    assert "cannot be read or written" in mini_vllm("share", tmp_path / "no" / "x.html", *LINEUP, exit_code=2).output
    assert file.read_text() == "mine"
    assert free_name(file) == tmp_path / "run-2.html"
    mini_vllm("share", file, *LINEUP, "--overwrite")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"]


def test_it_plays_offline_in_a_frame_that_may_run_scripts_alone(
    mini_vllm: Commands, pages: Pages, tmp_path: Path
) -> None:
    mini_vllm("share", tmp_path / "run.html", *LINEUP)
    frame = '<iframe src="run.html" sandbox="allow-scripts" width="900" height="900"></iframe>'
    (tmp_path / "blog.html").write_text(f"<!doctype html><body>{frame}")
    page = pages.new_page(offline=True)
    page.goto((tmp_path / "blog.html").as_uri())
    inside = page.frame_locator("iframe")
    inside.get_by_role("slider", name="step").wait_for()
    assert inside.locator(".mvw").get_attribute("data-step") == "6", "it begins with a preemption"
    inside.get_by_role("slider", name="step").press("End")
    assert inside.locator(".mvw").get_attribute("data-step") == "27"
    inside.locator("summary", has_text="The whole run as text").click()
    assert "preempted" in str(inside.locator("pre").last.text_content())
    still = pages.new_page(offline=True, java_script_enabled=False)
    still.goto((tmp_path / "run.html").as_uri())
    assert "r3 is preempted" in str(still.locator("img").get_attribute("alt"))


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
    assert bring_into(tmp_path, work) == ["Nothing to bring: all starters equal those in the zip."]


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
    with pytest.raises(ValueError, match=f"{NOT_A_ZIP}|is not an export of the lab"):
        starters_in(work)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"notes.txt": b""}, "is not an export of the lab"),
        ({NAME: b"#" * (2**20 + 1)}, "larger than 1 MiB"),
        ({f"../{NAME}": b"# out of it"}, "is not an export of the lab"),
        (None, NOT_A_ZIP),
    ],
)
def test_what_is_no_export_is_refused_in_words(tmp_path: Path, files: dict[str, bytes] | None, words: str) -> None:
    work = exported(tmp_path, files or {})
    if files is None:
        work.write_bytes(b"PK no zip")
    with pytest.raises(ValueError, match=words):
        starters_in(work)
