"""Builds the wheel `mini-vllm-labs`: the student edition as one archive, and the launcher that unpacks it."""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Set
from importlib import metadata
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.installation import install_command
from mini_vllm_labs.classroom.student_edition.texts import ReleaseError

PACKAGE = "mini_vllm_labs"
KERNEL = "mini_vllm_labs/notebook/kernel/"
SETTINGS = Path(__file__).with_name("wheel.toml")
GRADES = ("pytest", "pytest-timeout")  # the part of the extra `test` that `mini-vllm grade` and `pytest labs` need
PLATFORMS = tuple(
    {"sys_platform": name, "platform_system": system, "os_name": kind}
    for name, system, kind in (("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt"))
)
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def build(edition: Mapping[str, bytes], folder: Path) -> Path:
    """Build the wheel into a folder, created if missing, and return its path. Needs no network.

    Raises `ReleaseError` with setuptools' last output if the build fails.
    """
    if folder.exists() and not folder.is_dir():
        raise ReleaseError(f"{folder} is a file: name a folder for the wheel")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place)
        lay_out(edition, tree)
        command = [sys.executable, "-c", BUILD, str(folder.resolve())]
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"setuptools built no wheel: {done.stderr.strip()[-500:]}")
    return folder / done.stdout.split()[-1]


def lay_out(edition: Mapping[str, bytes], tree: Path) -> None:
    """Write the source tree from which setuptools builds the wheel."""
    package = tree / PACKAGE
    shutil.copytree(CHECKOUT / PACKAGE / "launcher", package / "launcher", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / PACKAGE / "__init__.py", package)
    with ZipFile(package / "edition.zip", "w", ZIP_DEFLATED) as archive:
        for path in sorted(edition):
            archive.writestr(ZipInfo(path), edition[path], ZIP_DEFLATED)  # always with the same date
    project = tomllib.loads(edition["pyproject.toml"].decode())["project"]
    extras = project["optional-dependencies"]
    needed = [need for need in extras["test"] if need.startswith(tuple(f"{name}>" for name in GRADES))]
    shutil.copy(SETTINGS, tree / "pyproject.toml")
    for path in ("README.md", "LICENSE", *(path for path in edition if path.startswith(KERNEL))):
        (tree / Path(path).name).write_bytes(edition[path])
    needed += project["dependencies"]
    extras |= {"tested": tested(needed, edition["constraints.txt"].decode().split())}
    lists = {"version": [project["version"]], "needed": needed, **extras}
    for name, lines in lists.items():
        (tree / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = "".join(f'{name} = {{ file = "{name}.txt" }}\n' for name in extras)
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write(f"\n[tool.setuptools.dynamic.optional-dependencies]\n{files}")


def tested(needed: Iterable[str], pins: Iterable[str]) -> list[str]:
    """Return the pins of the packages that every platform needs, directly or indirectly.

    Raises `ReleaseError` if one of them is not installed here, because its requirements are then unknown.
    """
    pinned = {canonicalize_name(pin.partition("==")[0]): pin for pin in pins}
    found, left = set[tuple[NormalizedName, frozenset[str]]](), [Requirement(text) for text in needed]
    while left:
        each = left.pop()
        if (key := (canonicalize_name(each.name), frozenset(each.extras))) in found:
            continue
        found.add(key)
        try:
            children = [Requirement(text) for text in metadata.requires(each.name) or ()]
        except metadata.PackageNotFoundError:
            raise ReleaseError(f"{each.name} is not installed: {install_command('test')}") from None
        left += [child for child in children if is_for_all(child.marker, {"", *each.extras})]
    return sorted(pinned[name] for name in {name for name, _ in found} & pinned.keys())


def is_for_all(marker: Marker | None, extras: Set[str]) -> bool:
    """Return whether a marker holds on every platform with at least one of the extras."""
    return marker is None or all(
        any(marker.evaluate({**platform, "extra": extra}) for extra in extras) for platform in PLATFORMS
    )
