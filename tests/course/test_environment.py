"""There is one list of dependencies: conda's file and the pins agree with `pyproject.toml`."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mini_vllm_labs.classroom.student_edition.wheel import TESTED
from mini_vllm_labs.upkeep.tested_packages import list_now

ROOT = Path(__file__).parents[2]
CONDA_NAMES = {"torch": "pytorch-cpu", "matplotlib": "matplotlib-base", "playwright": "playwright-python"}
PIN = re.compile(r"[\w.-]+==[\w.]+")


PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIRED = [*PROJECT["dependencies"], *EXTRAS["test"]]
ENVIRONMENT: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = {str(canonicalize_name(name)): version for name, _, version in (line.partition("==") for line in LINES)}


def test_conda_gets_what_pip_gets_under_condas_names() -> None:
    expected = {re.sub(r"^[\w.-]+", lambda m: CONDA_NAMES.get(m[0], m[0]), text) for text in REQUIRED}
    listed = [item for item in ENVIRONMENT["dependencies"] if isinstance(item, str)]
    assert {item for item in listed if item != "pip" and not item.startswith("python=")} == expected
    assert len(set(listed)) == len(listed)


def test_conda_takes_a_python_that_the_project_allows_and_installs_the_checkout() -> None:
    dependencies = ENVIRONMENT["dependencies"]
    (python,) = (item.partition("=")[2] for item in dependencies if str(item).startswith("python="))
    assert python == PROJECT["requires-python"].removeprefix(">=")
    assert "pip" in dependencies
    assert {"pip": ["-e .[judge,serve,structured]"]} in dependencies
    assert ENVIRONMENT["channels"] == ["conda-forge"]
    assert ENVIRONMENT["name"] == PROJECT["name"]


def test_every_line_of_the_constraints_is_a_plain_pin() -> None:
    assert [line for line in LINES if not PIN.fullmatch(line)] == [], "no hash, no address, no '+cpu', no option"
    assert len(PINS) == len(LINES)
    assert PINS["torch"] == "2.13.0"


def test_every_direct_dependency_is_pinned_within_its_bounds() -> None:
    for text in [*REQUIRED, *EXTRAS["triton"]]:
        requirement = Requirement(text)
        version = PINS.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not pinned"
        assert requirement.specifier.contains(version), f"{text} does not allow the pin {version}"


def test_the_project_itself_and_cuda_packages_are_not_pinned() -> None:
    assert [name for name in PINS if name.startswith(("mini-vllm", "nvidia", "cuda"))] == []


def test_the_wheels_extra_pins_what_every_learner_needs() -> None:
    wrong = "python -m mini_vllm_labs.upkeep.tested_packages writes the list"
    assert TESTED.read_text(encoding="utf-8") == list_now(), wrong


SCRIPTS = sorted((ROOT / "mini_vllm_labs").rglob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_that_installs_something_works_from_the_checkouts_root(script: Path) -> None:
    for steps in re.findall(r'cd "\$\(dirname "\$0"\)/([./]+)"', script.read_text(encoding="utf-8")):
        assert (script.parent / steps).resolve() == ROOT
