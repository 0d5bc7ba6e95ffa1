"""Builds the wheel `vllm-scheduler-conformance`: the suite with selected traces, without the rest of the course.

Run it as `python -m mini_vllm_labs.upkeep.conformance_wheel FOLDER [--release R]... [--kind K]...`.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.release_rules import change, rules
from mini_vllm_labs.classroom.student_edition.wheel import BUILD
from mini_vllm_labs.conformance.scenarios import DRAWN, FILES, FOLDER, KINDS, RecordedScenario, drawn_file
from mini_vllm_labs.runs.parity.drawn import drawn_lines

SOURCES, NAME = "mini_vllm_labs.conformance", "vllm_scheduler_conformance"
PAGE = CHECKOUT / "docs" / "conformance" / "protocol.md"
SETTINGS = Path(__file__).with_suffix(".toml")


def build(folder: Path, releases: Sequence[str] = tuple(FILES), kinds: Sequence[str] = (*KINDS, *DRAWN)) -> Path:
    """Build the wheel into a folder and return its path. Raises a `ValueError` with setuptools' message if the build
    fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        lay_out(Path(place), releases, kinds)
        command = [sys.executable, "-c", BUILD, str(folder.resolve())]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"setuptools did not build a wheel: {done.stderr.strip()[-500:]}")
    return folder / done.stdout.split()[-1]


def lay_out(tree: Path, releases: Sequence[str], kinds: Sequence[str]) -> None:
    """Write the source tree: the modules under their new names, the traces, and the pages."""
    package = tree / NAME
    package.mkdir()
    for source in (CHECKOUT / SOURCES.replace(".", "/")).glob("*.py"):
        (package / source.name).write_text(source.read_text(encoding="utf-8").replace(SOURCES, NAME), encoding="utf-8")
    named = {one.metadata["trace"]: f"{one.name}: {change(one.name)}" for one in rules()}
    (package / "rules.json").write_text(json.dumps(named), encoding="utf-8")
    for release in releases:
        for name in FILES[release]:
            copy_chosen(FOLDER / name, package / name, kinds)
        if drawn := list(drawn_lines(0, [release], [kind for kind in DRAWN if kind in kinds])):
            text = "".join(f"{json.dumps(line)}\n" for line in drawn)
            (package / drawn_file(release)).write_bytes(gzip.compress(text.encode(), mtime=0))
        page = Path(FILES[release][0]).with_name("README.md")
        shutil.copy(FOLDER / page, package / page)
    shutil.copy(SETTINGS, tree / "pyproject.toml")
    shutil.copy(PAGE, tree / "README.md")
    for name in ("LICENSE", "CITATION.cff"):
        shutil.copy(CHECKOUT / name, tree)


def copy_chosen(source: Path, target: Path, kinds: Sequence[str]) -> None:
    """Copy a file's scenarios of the given kinds."""
    target.parent.mkdir(exist_ok=True)
    if set(kinds) >= set(KINDS):
        shutil.copy(source, target)
        return
    packed = source.suffix == ".gz"
    text = gzip.decompress(source.read_bytes()) if packed else source.read_bytes()
    lines = [line for line in text.splitlines(keepends=True) if RecordedScenario(json.loads(line)).kind in kinds]
    if lines:
        target.write_bytes(gzip.compress(b"".join(lines), mtime=0) if packed else b"".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--release", action="append", choices=tuple(FILES), help="only this release, repeatable")
    parser.add_argument("--kind", action="append", choices=(*KINDS, *DRAWN), help="only this kind, repeatable")
    given = parser.parse_args()
    wheel = build(given.folder, given.release or tuple(FILES), given.kind or (*KINDS, *DRAWN))
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
