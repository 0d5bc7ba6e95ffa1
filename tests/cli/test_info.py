"""`mini-vllm info`: each problem is named with its fix, and only problems with required parts make it fail."""

import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.cli import info as checks
from tests.cli.conftest import Commands


def test_a_good_environment_is_ready(mini_vllm: Commands) -> None:
    shown = mini_vllm("info").output
    assert "Ready" in shown
    assert "embedded model" in shown
    assert "not set, so solution" in shown


def test_a_missing_package_is_named_with_its_fix(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name == "transformers":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    shown = mini_vllm("info", exit_code=1).output
    assert "Not ready: transformers." in shown
    assert "pip install -c constraints.txt" in " ".join(shown.split())


@pytest.mark.parametrize("extra", checks.OPTIONAL)
def test_a_missing_extra_is_named_with_its_line_and_what_it_costs(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    found = checks.check_extra(extra)
    assert not found.is_bad
    assert checks.OPTIONAL[extra][1] in found.found
    assert f"[{extra}]" in found.fix


def test_an_environment_from_before_the_kernel_is_told_how_to_get_it(tmp_path: Path) -> None:
    assert checks.check_kernel(tmp_path).status == "warn"
    assert f"-e {CHECKOUT}" in checks.check_kernel(tmp_path).fix
    assert checks.check_kernel(Path(sys.prefix)).status == "OK"


def test_what_the_course_can_do_without_only_warns() -> None:
    check = checks.check_package("surely-not-installed", {}, required=False)
    assert (check.status, check.is_bad) == ("warn", False)
    assert checks.check_package("rich", {"rich": "1.0"}, required=True).status == "warn"
    version = metadata.version("torch").partition("+")[0]
    assert checks.check_package("torch", {"torch": version}, required=True).status == "OK"


def test_an_old_python_and_a_bad_lineup_are_refused(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MINIMUM_PYTHON", (4, 0))
    monkeypatch.setenv("LAB_IMPL", "solution:2")
    shown = mini_vllm("info", exit_code=1).output
    assert "Not ready: Python, LAB_IMPL." in shown
    assert "unset LAB_IMPL" in shown


def test_a_lineup_is_spelled_out_per_phase(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "starter:1-2")
    shown = mini_vllm("info").output
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith((" OK         ",))][-6:] == [
        "written", "written", "absent", "absent", "absent", "absent",
    ], "nothing is called yours that is not written"  # fmt: skip


def test_a_damaged_model_is_noticed(mini_vllm: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checks.EMBEDDED_MODEL, folder)
    assert checks.check_model(folder).status == "OK"
    monkeypatch.setattr(checks, "EMBEDDED_MODEL", folder)
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"x")
    assert "Not ready: embedded model." in mini_vllm("info", exit_code=1).output
    (folder / "config.json").unlink()
    assert checks.check_model(folder).status == "missing"


def test_neither_solutions_nor_constraints_need_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "solutions_exist", lambda: False)
    assert not checks.check_solutions().is_bad
    assert checks.read_constraints(CHECKOUT / "constraints.txt")["torch"]
    assert checks.read_constraints(CHECKOUT / "nowhere.txt") == {}
