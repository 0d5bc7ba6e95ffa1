"""Every pip command in a text or error is run where it is printed, against an index of empty wheels.

Each command installs what it promises, and leaves the course's installation unchanged.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.installation import CPU_INDEX
from mini_vllm_labs.classroom.student_edition.edition import files_of
from tests.edition.new_learner import NewLearner
from tests.edition.released_text import ReleasedText, markdown_of, read

LINES = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").split()
PINS: dict[str, str] = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}
OTHERS = {"torch": "2.15.0", "ray": "3.0"}  # newer than the tested versions, or from an example that is not tested
ASKED = re.compile(r"\binstall_command\(([\"'](\w+)[\"'])?\)")
EXTRA = re.compile(r"mini-vllm-labs\[(\w+)\]|extra [`'](\w+)[`']")
FRESH = re.compile(r"\.whl|\binstall '?\.")  # a line that installs the course as learners would
PRINTERS = {  # modules that may name pip, because a test here runs their commands
    "mini_vllm_labs/cli/classroom/release.py",
    "mini_vllm/installation.py",
    "mini_vllm_labs/notebook/serving/notices.py",
    "mini_vllm_labs/upkeep/build_backend/course_build.py",
}
PROGRAMS = ("labs", "mini_vllm", "mini_vllm_labs")
ASK = "import runpy, sys; print(runpy.run_path(sys.argv[1])[sys.argv[2]](*sys.argv[3:]))"
INSTALLED = """
import json
from importlib.metadata import distributions
print(json.dumps({it.metadata["Name"]: it.version for it in distributions()}))
"""


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels that contain only a name and a version."""
    folder = tmp_path_factory.mktemp("index")
    for name, version in [*PINS.items(), *OTHERS.items()]:
        stem = f"{name.replace('-', '_')}-{version}"
        info = f"{stem}.dist-info"
        with ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return folder


class Place(NewLearner):
    """An environment with pip, setuptools, the index of wheels, and the course's folder."""

    def __init__(self, place: Path, index: Path, folder: Path) -> None:
        place.mkdir(exist_ok=True)
        super().__init__(place)
        self.folder, self.index = folder, index
        tools = place / "tools"
        tools.mkdir()
        found = Path(setuptools.__file__).parents[1]
        for name in ("setuptools", "_distutils_hack", f"setuptools-{setuptools.__version__}.dist-info"):
            (tools / name).symlink_to(found / name)
        self.site.joinpath("tools.pth").write_text(str(tools))
        shim = self.bin / "pip"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip --python "{self.bin / "python"}" "$@"\n')
        shim.chmod(0o755)

    @property
    def constraints(self) -> str:
        return "constraints.txt" if (self.folder / "lab.py").is_file() else ".setup/constraints.txt"

    @property
    def site(self) -> Path:
        return next(self.environment.glob("lib/python3*/site-packages"))

    def runs(self, line: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
        settings = {"NO_INDEX": "1", "FIND_LINKS": str(self.index), "CONFIG_FILE": os.devnull}
        settings |= {"NO_BUILD_ISOLATION": "0", "DISABLE_PIP_VERSION_CHECK": "1"}  # pip interprets 0 as "no isolation"
        environment = {"HOME": str(self.home), "PATH": os.pathsep.join([str(self.bin), os.defpath])}
        environment |= {f"PIP_{name}": value for name, value in settings.items()}
        return subprocess.run(
            line, shell=True, cwd=at or self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def says(self, function: str, *arguments: str, at: Path | None = None) -> str:
        """Return the result of calling a `mini_vllm.installation` function here."""
        file = str(self.folder / "mini_vllm" / "installation.py")
        return self.types("python", "-c", ASK, file, function, *arguments, at=at).stdout.strip()

    def versions(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.types("python", "-c", INSTALLED, at=self.home).stdout)
        return {canonicalize_name(name): version for name, version in found.items()}

    def course(self) -> dict[str, str]:
        """Return what would change if the course were reinstalled, or installed in a different way."""
        (info,) = self.site.glob("mini_vllm_labs-*.dist-info")
        return {str(path): str(path.stat().st_mtime_ns) for path in [*info.iterdir(), self.bin / "mini-vllm"]}


@pytest.fixture(scope="session", params=["checkout", "edition", "wheel"])
def place(request: pytest.FixtureRequest, index: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The places where pip lines are printed: a checkout, a student edition, and a folder that the wheel made."""
    home = tmp_path_factory.mktemp(request.param)
    folders = {"checkout": CHECKOUT, "wheel": home / "home" / "my-labs"}
    made = Place(home, index, folders.get(request.param) or request.getfixturevalue("student"))
    if request.param == "wheel":
        wheel = request.getfixturevalue("wheel")
        assert made.runs(f'pip install "{wheel.name}[tested]"', at=wheel.parent).returncode == 0
        assert made.types("mini-vllm", "start", "my-labs", at=made.home).returncode == 0
    else:
        done = made.runs(made.says("install_command"))
        assert done.returncode == 0, done.stderr
    return made


def extras(folder: Path) -> dict[str, list[Requirement]]:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: [Requirement(text) for text in texts] for name, texts in project["optional-dependencies"].items()}


def asked(folder: Path) -> set[str]:
    """Return the extras that a folder's code recommends installing."""
    code = (path.read_text(encoding="utf-8") for name in PROGRAMS for path in folder.glob(f"{name}/**/*.py"))
    return {match[2] or "" for text in code for match in ASKED.finditer(text)}


def texts_of(folder: Path) -> list[ReleasedText]:
    files = [folder / name for name in files_of(folder) if not name.startswith(("CHANGELOG", "tests/"))]
    markdown = [read(folder, path, path.read_text(encoding="utf-8")) for path in files if path.suffix == ".md"]
    return markdown + [read(folder, path, markdown_of(path)) for path in files if path.suffix == ".ipynb"]


def test_every_extra_that_an_error_names_is_installed_and_the_course_left_alone(place: Place) -> None:
    known, before = extras(place.folder), place.course()
    named = asked(place.folder)
    assert named >= {"", "dask", "serve", "structured", "test", "triton", "tutor"}
    for extra in sorted(named):
        line = place.says("install_command", extra, at=place.folder / "labs")
        done = place.runs(line, at=place.folder / "labs")
        assert (done.returncode, "WARNING" in done.stderr) == (0, False), f"{line}\n{done.stderr}"
        there = place.versions()
        for need in known.get(extra, []):
            if need.marker is None or need.marker.evaluate():
                assert there[name := canonicalize_name(need.name)] == PINS[name], line
    assert place.course() == before
    assert place.says("install_command", "triton") == f'pip install -c {place.constraints} "mini-vllm-labs[triton]"'


def test_every_line_of_a_text_runs_where_its_readers_are(place: Place, wheel: Path) -> None:
    commands = (command.words for text in texts_of(place.folder) for command in text.commands())
    lines = {shlex.join(words) for words in commands if words[:2] == ["pip", "install"]}
    assert lines
    before = place.course()
    for line in sorted(lines):
        if not FRESH.search(line):  # these are for a different environment: see below
            done = place.runs(line)
            assert (done.returncode, "WARNING" in done.stderr) == (0, "ray[serve]" in line), f"{line}\n{done.stderr}"
    if place.folder != CHECKOUT:
        assert place.course() == before


def test_what_a_learner_types_to_install_the_wheel_brings_the_tested_versions(
    index: Path, wheel: Path, tmp_path: Path
) -> None:
    texts = [(CHECKOUT / name).read_text(encoding="utf-8") for name in ("docs/installing.md", "docs/teaching.md")]
    wheels = {" ".join(it.split()) for text in texts for it in re.findall(r"pip install[^`|]*?\.whl[^`|\n]*", text)}
    plain = {it for text in texts for it in re.findall(r'pip install "\.[^`|\n]*', text)}
    assert {CPU_INDEX in line for line in wheels} == {True, False}
    assert plain
    for number, line in enumerate(sorted(wheels | plain)):
        learner = Place(tmp_path / str(number), index, tmp_path)
        done = learner.runs(line, at=wheel.parent if line in wheels else CHECKOUT)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        found = {name: it for name, it in learner.versions().items() if name not in ("setuptools", "mini-vllm-labs")}
        assert found.items() <= PINS.items()
        assert {"torch", "transformers", "jupyterlab", "ipykernel", "tokenizers", "pytest"} <= found.keys()


def test_without_the_tested_versions_the_printed_line_brings_them_and_no_cuda(
    index: Path, wheel: Path, tmp_path: Path
) -> None:
    learner = Place(tmp_path, index, tmp_path / "home" / "my-labs")
    assert learner.runs(f"pip install {wheel.name}", at=wheel.parent).returncode == 0
    assert learner.versions()["torch"] == OTHERS["torch"]
    assert learner.types("mini-vllm", "start", "my-labs", at=learner.home).returncode == 0
    line = learner.says("install_command", "serve")
    assert (f"--extra-index-url {CPU_INDEX} " in line) == (sys.platform == "linux")
    assert learner.runs(line).returncode == 0
    assert learner.versions()["torch"] == PINS["torch"]
    assert CPU_INDEX not in learner.says("install_command", "serve")


def test_pip_is_named_so_that_it_is_the_running_pythons(place: Place) -> None:
    (place.bin / "pip").rename(place.bin / "hidden")
    try:
        for line in (place.says("install_command", "serve"), place.says("pip_install", "playwright")):
            assert line.startswith(f"{place.bin / 'python'} -m pip install -c {place.constraints} ")
    finally:
        (place.bin / "hidden").rename(place.bin / "pip")


def test_no_other_code_has_words_of_its_own() -> None:
    files = [name for name in files_of(CHECKOUT) if name.endswith(".py") and not name.startswith("tests/")]
    said = {name for name in files if re.search(r"pip install \S", (CHECKOUT / name).read_text(encoding="utf-8"))}
    assert said == PRINTERS


def test_every_extra_that_a_text_names_exists(student: Path) -> None:
    for folder in (CHECKOUT, student):
        known = {*extras(folder), "tested"}
        for text in texts_of(folder):
            named = {name for pair in EXTRA.findall(text.text) for name in pair if name}
            assert named <= known, text.file
