"""A new learner: an environment with only the wheel, and an empty home directory."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.starter_status import starter_path


class NewLearner:
    """An environment with only the wheel and its requirements, and an empty home directory."""

    def __init__(self, place: Path) -> None:
        self.home, self.environment = place / "home", place / "env"
        self.home.mkdir()
        self.folder = self.home / "my-labs"
        venv.create(self.environment, symlinks=os.name != "nt")
        self.bin = self.environment / ("Scripts" if os.name == "nt" else "bin")

    def install(self, wheel: Path) -> None:
        """Make pip install the wheel; the packages that it requires come from this environment."""
        self.finds_our_packages()
        self.pip("install", "--no-deps", "--no-index", str(wheel))

    def pip(self, *arguments: str) -> None:
        """Make this environment's pip operate on the learner's environment."""
        pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(self.bin / "python")]
        subprocess.run([*pip, *arguments], check=True)

    def finds_our_packages(self) -> None:
        """Make the learner's Python search this environment's packages after its own packages."""
        purelib = sysconfig.get_path("purelib", vars={"base": str(self.environment)})
        ours = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        (Path(purelib) / "packages.pth").write_text("\n".join(ours), encoding="utf-8")

    def types(self, *command: str, at: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, or in the folder `at` if given, without anything from this environment."""
        path = os.pathsep.join([str(self.bin), os.defpath])
        environment = {"HOME": str(self.home), "PATH": path, "COLUMNS": "100", **more}
        program = str(self.bin / command[0])
        return subprocess.run(
            [program, *command[1:]], cwd=at or self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def writes_the_first_task(self) -> None:
        write_function(starter_path(1, self.folder), "clamp", CHECKOUT / "solutions" / "phase1_scheduler_step.py")


def write_function(starter: Path, name: str, reference: Path) -> None:
    """Replace the text of one function in the starter with the reference's."""
    function = re.compile(rf"^def {name}\(.*?(?=^\S|\Z)", re.DOTALL | re.MULTILINE)
    written = function.search(reference.read_text(encoding="utf-8"))
    if written is None:
        raise ValueError(f"{reference} has no function {name}")
    text = function.sub(lambda _: written[0], starter.read_text(encoding="utf-8"), count=1)
    starter.write_text(text, encoding="utf-8")
