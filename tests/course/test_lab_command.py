"""Tests `lab.py`: its choice of PyTorch build, the git hook, which tests run when, and how it handles lint errors."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.edition.conftest import module_at

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lab() -> ModuleType:
    return module_at(ROOT / "lab.py", "our_lab")


def dry_run(*arguments: str) -> list[str]:
    command = [sys.executable, "lab.py", *arguments, "--dry-run"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_cpu_build_comes_from_find_links_or_from_the_cpu_index_before_the_course() -> None:
    make, torch, course, *_, demo = dry_run("demo", "--torch", "cpu", "--steps", "3")
    assert make == "python -m venv .venv"
    from_links, from_index = (shlex.split(way) for way in torch.split(" || "))
    assert {"--no-index", "--no-deps", "torch"} <= set(from_links)
    assert from_index[-2:] == ["--index-url", "https://download.pytorch.org/whl/cpu"]
    assert "--constraint constraints.txt" in course
    assert "download.pytorch.org" not in course
    assert demo == "python -m mini_vllm_labs.cli demo --steps 3"


def test_without_the_option_of_a_cpu_build_pip_chooses() -> None:
    assert not re.search(r"--index-url|--no-deps", "\n".join(dry_run("demo", "--torch", "pip")))


@pytest.mark.parametrize(
    ("system", "has_driver", "build"),
    [("linux", False, "cpu"), ("linux", True, "pip"), ("darwin", False, "pip"), ("win32", False, "pip")],
)
def test_auto_means_the_cpu_build_on_linux_without_a_driver(
    lab: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, has_driver: bool, build: str
) -> None:
    if has_driver:
        (tmp_path / "nvidia-smi").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lab.sys, "platform", system)
    assert lab.chosen_torch("auto") == build
    assert lab.chosen_torch("cpu") == "cpu"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_passes_its_variable_on() -> None:
    command = ["make", "--no-print-directory", "--dry-run", "demo", "TORCH=cpu"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shlex.split(shown)[1:] == ["lab.py", "demo", "--torch", "cpu"]


class Pip:
    """Stands in for `subprocess.call`: records each call to pip, and fails for those that the test names."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.calls: list[str] = []

    def __call__(self, command: list[object], **_: object) -> int:
        self.calls.append(" ".join(map(str, command)))
        return int(any(word in self.calls[-1] for word in self.failing))


@pytest.mark.parametrize(("failing", "num_calls"), [((), 1), (("--no-index",), 2), (("torch",), 2)])
def test_the_index_is_asked_only_if_find_links_has_no_wheel(
    lab: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    failing: tuple[str, ...], num_calls: int
) -> None:  # fmt: skip
    pip = Pip(*failing)
    monkeypatch.setattr(lab.subprocess, "call", pip)
    lab.install_cpu_torch(is_required=False)
    assert len(pip.calls) == num_calls
    assert ("pip's own choice follows" in capsys.readouterr().out) == (failing == ("torch",))


def test_a_cpu_build_that_was_asked_for_and_cannot_be_had_is_an_error(
    lab: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.subprocess, "call", Pip("torch"))
    with pytest.raises(subprocess.CalledProcessError):
        lab.install_cpu_torch(is_required=True)


@pytest.mark.parametrize("is_a_clone", [True, False])
def test_a_set_up_installs_the_hook_in_a_clone_only(
    lab: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_a_clone: bool
) -> None:
    pip = Pip()
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    monkeypatch.setattr(lab, "STAMP", tmp_path / "ready")
    monkeypatch.setattr(lab.venv, "create", lambda *_, **__: None)
    for name in ("call", "check_call"):
        monkeypatch.setattr(lab.subprocess, name, pip)
    if is_a_clone:
        (tmp_path / ".git").mkdir()
    lab.set_up("pip")
    assert ["pre_commit install" in call for call in pip.calls] == ([False, True] if is_a_clone else [False])


def test_the_hook_refuses_a_long_subject(lab: ModuleType, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    shutil.copy(ROOT / ".pre-commit-config.yaml", tmp_path)
    subprocess.run([*git, "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run([sys.executable, *lab.HOOK], cwd=tmp_path, check=True, capture_output=True)

    def commit(subject: str) -> int:
        command = [*git, "commit", "--allow-empty", "--message", subject]
        environment = os.environ | {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode

    subprocess.run([*git, "add", "."], cwd=tmp_path, check=True)
    assert [commit("x" * 73), commit("x" * 72)] == [1, 0]


def test_test_all_is_test_and_the_rest_and_the_mutants(lab: ModuleType) -> None:
    first, mutants, long, rest = lab.COMMANDS["test-all"]
    assert [first] == lab.COMMANDS["test"]
    assert all((ROOT / path).exists() for path in (*lab.FIRST_PLACES, *lab.LONG_TESTS))
    assert all(path.startswith(tuple(lab.FIRST_PLACES)) for path in lab.LONG_TESTS)
    assert first[-len(lab.FIRST_TESTS) :] == lab.FIRST_TESTS
    assert long[-len(lab.LONG_TESTS) :] == lab.LONG_TESTS
    assert rest[-len(lab.OTHER_TESTS) :] == lab.OTHER_TESTS
    assert mutants == ["-m", "tests.mutants", "--quiet"]


def test_an_import_against_a_contract_fails_the_lint(lab: ModuleType, tmp_path: Path) -> None:
    contracts = "[[tool.importlinter.contracts]]\nname = 'one way'\ntype = 'layers'\nlayers = ['top', 'bottom']\n"
    (tmp_path / "pyproject.toml").write_text(f"[tool.importlinter]\nroot_packages = ['top', 'bottom']\n{contracts}")
    for name, text in (("top", "import bottom\n"), ("bottom", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def lint() -> int:
        command = [sys.executable, *lab.COMMANDS["lint"][-1]]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode

    assert lint() == 0
    (tmp_path / "bottom" / "__init__.py").write_text("import top\n")
    (tmp_path / "top" / "__init__.py").write_text("")
    assert lint() != 0
