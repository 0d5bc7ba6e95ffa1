"""The built site, and a learner's way through it. Building needs npm and PyPI once; their downloads are cached."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import compose
from mini_vllm_labs.upkeep.site.__main__ import assemble
from mini_vllm_labs.upkeep.site.downloads import DownloadError, Downloads

CACHE = CHECKOUT / "build" / "site-cache"


def missing(what: str) -> None:
    """Skip the test, or fail it if `REQUIRE_SITE` is set."""
    (pytest.fail if os.environ.get("REQUIRE_SITE") else pytest.skip)(
        f"{what}: `make site` needs node, npm and PyPI once"
    )


@cache
def built_site(folder: Path) -> Path:
    """Return the site of this checkout's student edition, taken only from the cache."""
    if not (CACHE / "wheels").is_dir():
        missing("the site was never built here")
    try:
        assemble(compose(), Downloads(CACHE), folder)
    except DownloadError as error:
        pytest.fail(str(error))
    return folder


def write_solutions(drive: Path, *phases: int) -> None:
    """Put the reference into a learner's drive as the starters of some phases."""
    for phase in phases:
        (solution,) = (CHECKOUT / "solutions").glob(f"phase{phase}_*.py")
        write_starter(drive, phase, solution.read_text("utf-8"))


def write_starter(drive: Path, phase: int, text: str) -> None:
    (folder,) = (CHECKOUT / "labs").glob(f"phase{phase}_*")
    target = drive / "labs" / folder.name / "starter.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")


def in_tab(site: Path, drive: Path, script: str) -> str:
    """Return what a script prints in the tab's Python, run by Node."""
    command = ["node", str(CHECKOUT / "mini_vllm_labs/upkeep/site/in_node.mjs"), str(site / "pyodide"), str(drive)]
    try:
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=900, check=False)
    except FileNotFoundError:
        missing("node is not installed")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
