"""The time from `pip install` to the first green task, as a new learner goes: `python -m tools.first_green`.

Builds the wheel, installs it into an empty environment with an empty HOME, makes a folder, reads (by the number of
words), writes the first task and tests it. Packages come from the environment that runs this; `--download` lets pip
fetch them instead, so that the minutes of the download count, too. Run it on a quiet machine.
"""

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from classroom.student_edition.edition import compose
from classroom.student_edition.wheel import build
from course.starter_status import starter_path
from mini_vllm.assembly.lineup import CHECKOUT

WAY = (
    ("README.md", "](labs/README.md)"),
    ("labs/README.md", "](phase1_scheduler_step/README.md)"),
    ("labs/phase1_scheduler_step/README.md", "-m task1_1"),
    ("labs/phase1_scheduler_step/starter.py", "raise NotImplementedError"),
)
"""What is read before the first task, and up to which words."""
WORDS_PER_MINUTE = 238  # of adults who read English silently: Brysbaert 2019, doi:10.1016/j.jml.2019.104047
MINUTES_TO_WRITE = 5  # as the task's heading says
AIM = 10
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def words_before(path: Path, mark: str) -> int:
    """Return how many words of a file are read before a mark in it. Raises `ValueError` if the mark is not there."""
    before, found, _ = COMMENT.sub("", path.read_text(encoding="utf-8")).partition(mark)
    if not found:
        raise ValueError(f"{path} leads nowhere: {mark}")
    return len(before.split())


class NewLearner:
    """An environment with nothing but the wheel and what it needs, and an empty home directory."""

    def __init__(self, place: Path) -> None:
        self.home, self.environment = place / "home", place / "env"
        self.home.mkdir()
        self.folder = self.home / "my-labs"
        venv.create(self.environment, symlinks=os.name != "nt")
        self.bin = self.environment / ("Scripts" if os.name == "nt" else "bin")

    def install(self, wheel: Path, *, download: bool = False) -> None:
        """Let pip install the wheel; without `download` its packages are those of this environment."""
        options = ["--extra-index-url", CPU_INDEX] if download else ["--no-deps", "--no-index"]
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet", *options]
        subprocess.run([*pip, str(wheel)], check=True)
        if not download:
            purelib = sysconfig.get_path("purelib", vars={"base": str(self.environment)})
            ours = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
            (Path(purelib) / "packages.pth").write_text("\n".join(ours), encoding="utf-8")

    def types(self, *command: str, at: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, or `at` another place, with nothing of this environment."""
        path = os.pathsep.join([str(self.bin), os.defpath])
        environment = {"HOME": str(self.home), "PATH": path, "COLUMNS": "100", **more}
        program = str(self.bin / command[0])
        return subprocess.run(
            [program, *command[1:]], cwd=at or self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def writes_the_first_task(self) -> None:
        write_function(starter_path(1, self.folder), "clamp", CHECKOUT / "solutions" / "phase1_scheduler_step.py")


def write_function(starter: Path, name: str, reference: Path) -> None:
    """Put the reference's text of a function in the place of the starter's."""
    function = re.compile(rf"^def {name}\(.*?(?=^\S|\Z)", re.DOTALL | re.MULTILINE)
    written = function.search(reference.read_text(encoding="utf-8"))
    if written is None:
        raise ValueError(f"{reference} has no function {name}")
    text = function.sub(lambda _: written[0], starter.read_text(encoding="utf-8"), count=1)
    starter.write_text(text, encoding="utf-8")


@contextmanager
def timed(what: str, seconds: dict[str, float]) -> Iterator[None]:
    start = time.monotonic()
    yield
    seconds[what] = time.monotonic() - start


def first_green(*, download: bool) -> dict[str, float]:
    """Return the seconds of each part. Raises `RuntimeError` with the output of a command that fails."""
    seconds: dict[str, float] = {}
    with TemporaryDirectory() as place:
        wheel = build(compose(), Path(place) / "wheel")
        learner = NewLearner(Path(place))
        with timed("pip install mini-vllm-labs", seconds):
            learner.install(wheel, download=download)
        steps = (("mini-vllm", "start", "my-labs"), ("mini-vllm", "demo"))
        test = ("python", "-m", "pytest", "labs/phase1_scheduler_step", "-m", "task1_1")
        for step in steps:
            with timed(" ".join(step), seconds):
                checked(learner.types(*step, at=learner.home if "start" in step else None))
        words = sum(words_before(learner.folder / name, mark) for name, mark in WAY)
        seconds[f"read {words} words, {WORDS_PER_MINUTE} a minute"] = 60 * words / WORDS_PER_MINUTE
        learner.writes_the_first_task()
        seconds["write task 1.1, as its heading says"] = 60 * MINUTES_TO_WRITE
        with timed(" ".join(test[2:]), seconds):
            checked(learner.types(*test))
    return seconds


def checked(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise RuntimeError(f"{' '.join(done.args)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.first_green", description=__doc__.partition("\n")[0])
    parser.add_argument("--download", action="store_true", help="let pip fetch all packages, PyTorch's CPU build too")
    seconds = first_green(download=parser.parse_args().download)
    for what, taken in seconds.items():
        print(f"{taken:7.1f} s  {what}")
    total = sum(seconds.values()) / 60
    print(f"{total:7.1f} min from pip install to the first green task; the aim is {AIM}")


if __name__ == "__main__":
    main()
