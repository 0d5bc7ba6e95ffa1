"""`mini-vllm share`: a page that plays alone and in a frame, says whose code ran, and overwrites nothing."""

import base64
import gzip
import re
from pathlib import Path

import pytest

from cli.share import MAX_BYTES, free_name
from tests.chromium import Pages
from tests.cli.conftest import Commands
from tests.course.surface import solution_path

LINEUP = ("--lineup", "solution:1-5")


def everything_in(page: str) -> str:
    """Return a page with all that is packed in it."""
    packed = re.findall(r"'(H4sI[\w+/=]+)'", page)
    images = re.findall(r"base64,([\w+/=]+)", page)
    assert packed
    assert images
    inner = [gzip.decompress(base64.b64decode(text)).decode() for text in packed]
    return "\n".join([page, *inner, *(base64.b64decode(text).decode() for text in images)])


def test_a_page_is_small_says_whose_code_ran_and_holds_no_source(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    printed = mini_vllm("share", file, *LINEUP).output
    page = file.read_text(encoding="utf-8")
    assert len(page.encode()) < MAX_BYTES
    assert '<iframe src="run.html"' in printed
    assert "1 scheduler step: reference, 2 block pool: reference, 3 preemption: reference" in page
    assert "All 28 steps: 210 tokens computed" in page
    assert "r3 for r0" in page, "the step table is in it as text"
    everything = everything_in(page)
    assert not re.search(r"(src|href)=.?https?:|@import|url\(", everything)
    for phase in range(1, 6):
        lines = [line.strip() for line in solution_path(phase).read_text(encoding="utf-8").splitlines()]
        assert [line for line in lines if len(line) > 30 and line in everything] == []


def test_nothing_is_overwritten_without_being_asked(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    file.write_text("mine")
    refused = mini_vllm("share", file, *LINEUP, exit_code=2)
    assert "exists and was left alone" in refused.output
    assert file.read_text() == "mine"
    assert free_name(file) == tmp_path / "run-2.html"
    mini_vllm("share", file, *LINEUP, "--overwrite")
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"]
    assert "cannot be read or written" in mini_vllm("share", tmp_path / "no" / "x.html", *LINEUP, exit_code=2).output


def test_a_run_that_fails_is_not_shared(mini_vllm: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "not written" in mini_vllm("share", "--lineup", "starter:1", exit_code=1).output.lower()
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_run_is_nobodys(mini_vllm: Commands, tmp_path: Path) -> None:
    mini_vllm("share", tmp_path / "run.html", "--recorded")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "no learner&#x27;s code is in it" in page
    assert "the learner&#x27;s" not in page


def test_it_plays_offline_in_a_frame_that_may_do_nothing_but_run_scripts(
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
