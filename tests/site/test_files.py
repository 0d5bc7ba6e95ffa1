"""All files found by listing the site, including archives inside archives."""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import leaks, secret_lines


def listed(site: Path) -> Iterator[tuple[str, bytes]]:
    for path in site.rglob("*"):
        if path.is_file():
            yield from unpacked(path.relative_to(site).as_posix(), path.read_bytes())


def unpacked(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a file, or every file in an archive."""
    yield name, content
    if name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for inside in archive.namelist():
                yield from unpacked(f"{name}!{inside}", archive.read(inside))


def test_no_solution_and_no_mutant_is_in_the_site(site: Path) -> None:
    files = dict(listed(site))
    assert any(name.endswith("labs/phase1_scheduler_step/starter.py") for name in files)
    # The demo on the first page runs the compiled phases 1 to 5 of the reference; tests/tab checks what it contains.
    answers = {name for name in files if "solutions/" in name or "mutants" in name or "alternatives" in name}
    assert {name for name in answers if not re.fullmatch(r"chat/engine\.zip!solutions/\w+\.pyc", name)} == set()
    ours = {name: content for name, content in files.items() if ".whl!" not in name or "mini_vllm_course" in name}
    texts = {name: content for name, content in ours.items() if not name.endswith((".whl", ".zip", ".wasm"))}
    assert leaks(texts, secret_lines(CHECKOUT)) == []


def test_a_solution_in_the_wheel_would_be_found() -> None:
    solution = next((CHECKOUT / "solutions").glob("phase2_*.py")).read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("labs/notes.py", solution)
    assert "a.zip!labs/notes.py" in leaks(dict(unpacked("a.zip", packed.getvalue())), secret_lines(CHECKOUT))


def test_the_lock_names_files_beside_it_and_nothing_else(site: Path) -> None:
    packages = json.loads((site / "pyodide/pyodide-lock.json").read_text("utf-8"))["packages"]
    for package in packages.values():
        assert "/" not in package["file_name"]
        assert (site / "pyodide" / package["file_name"]).is_file()
        assert set(package["depends"]) <= set(packages)


def test_the_lab_shows_starters_and_the_notebooks_that_a_tab_can_run(site: Path) -> None:
    shown = {path.name for path in (site / "lab/files/notebooks").glob("*.ipynb")}
    assert shown == {path.name for path in (CHECKOUT / "notebooks").glob("*.ipynb")}
    for name in ("06_gpu_runner", "12_serving", "14_your_scheduler"):
        (cell,) = json.loads((site / f"lab/files/notebooks/{name}.ipynb").read_text("utf-8"))["cells"]
        assert "runs in a local installation" in cell["source"]
        assert f"Open `notebooks/{name}.ipynb`" in cell["source"]
    starters = {path.parent.name for path in (site / "lab/files/labs").glob("*/starter.py")}
    assert {name.partition("_")[0] for name in starters} == {f"phase{n}" for n in range(1, 15) if n != 6}
