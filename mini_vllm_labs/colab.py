"""Installs the course in Google Colab, which has its own PyTorch and notebook.

Imports only modules that are already installed.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

CHECKOUT = Path(__file__).parents[1]
# Colab displays notebooks itself
NOT_NEEDED = ("jupyterlab",)


def install() -> None:
    """Install the course in this Python. Versions that Colab already has are kept if they are suitable.

    Raises `subprocess.CalledProcessError` if pip fails.
    """
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    missing = lacking([*project["dependencies"], *project["optional-dependencies"]["serve"]])  # notebook 12 serves
    print(f"Installing the course{' and ' if missing else ''}{', '.join(missing)} ...", flush=True)
    with TemporaryDirectory() as folder:
        pins = Path(folder, "constraints.txt")
        pins.write_text("\n".join(pins_for((CHECKOUT / "constraints.txt").read_text(encoding="utf-8"), missing)))
        if missing:
            pip("--constraint", str(pins), *missing)
    # installs only what is missing, and does not replace any of Colab's packages
    pip("--no-deps", "--editable", str(CHECKOUT))
    print("Ready. Your files are in labs/; changes are lost with the session unless you download them.")


def lacking(requirements: Iterable[str]) -> list[str]:
    wanted = [Requirement(text) for text in requirements]
    return [str(each) for each in wanted if each.name not in NOT_NEEDED and not is_met(each)]


def is_met(requirement: Requirement) -> bool:
    """Return whether the package is installed in a version that satisfies the requirement."""
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def pins_for(constraints: str, missing: Iterable[str]) -> list[str]:
    """Return the pins of the missing packages, and of all pinned packages that are not installed in any version."""
    names = {Requirement(text).name for text in missing}
    pins = [line for line in constraints.splitlines() if line]
    return [pin for pin in pins if re.split("==", pin)[0] in names or not is_met(Requirement(pin.partition("==")[0]))]


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *arguments], check=True)
