"""`mini-vllm share`: a page that plays alone and in a frame, says whose code ran, and overwrites nothing."""

import base64
import gzip
import re
from pathlib import Path

from cli.share import MAX_BYTES, free_name
from tests.chromium import Pages
from tests.cli.conftest import Commands
from tests.course.surface import solution_path

LINEUP = ("--lineup", "solution:1-5")


def test_a_page_is_small_says_whose_code_ran_and_holds_no_source(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    assert '<iframe src="run.html"' in mini_vllm("share", file, *LINEUP).output
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
    assert "exists and was left alone" in mini_vllm("share", file, *LINEUP, exit_code=2).output
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
