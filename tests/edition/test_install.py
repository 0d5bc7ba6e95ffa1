"""In a shared environment, pip adds and removes only the course's files, or refuses to do anything."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.starter_status import starter_path
from tests.edition.new_learner import NewLearner, write_function

SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
THEIRS = {
    "etc/ipython/ipython_kernel_config.json": '{"IPKernelApp": {"matplotlib": "inline"}}',
    "share/jupyter/kernels/theirs/kernel.json": json.dumps(
        {"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Theirs"}
    ),
    **{f"{SITE}/{name}/__init__.py": "MINE = True\n" for name in ("bench", "cli", "course", "labs", "solutions")},
}
KERNEL = """
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name=sys.argv[1])
client.execute_interactive(sys.argv[2], timeout=120)
client.stop_channels()
manager.shutdown_kernel(now=True)
"""
LARGE = shutil.ignore_patterns(
    *(".venv*", ".git", ".prometheus", ".*_cache", "build", "embedded_model", "*.gz", "__pycache__")
)
OURS = (
    *("bin/mini-vllm", "share/jupyter/kernels/mini-vllm-labs/"),
    *(f"{SITE}/mini_vllm/", f"{SITE}/mini_vllm_labs", f"{SITE}/__editable__", f"{SITE}/__pycache__/"),
)


def tree(folder: Path) -> dict[str, str]:
    """Return the contents of a folder: a hash for each file, and only the name of each folder."""
    return {
        str(path.relative_to(folder)): "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
    }


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewLearner:
    """An environment with files from other projects and with the packages that the course needs."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    learner = NewLearner(tmp_path)
    learner.finds_our_packages()
    for name, text in THEIRS.items():
        path = learner.environment / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return learner


def install(learner: NewLearner, wheel: Path | None) -> None:
    """Install the wheel, or the checkout in editable mode if no wheel is given."""
    offline = ("--no-deps", "--no-index", "--no-build-isolation")
    learner.pip("install", *offline, *([str(wheel)] if wheel else ["-e", str(CHECKOUT)]))


def kernel(learner: NewLearner, name: str, code: str, at: Path) -> tuple[str, str]:
    """Return what a kernel prints to stdout and to stderr."""
    done = learner.types("python", "-c", KERNEL, name, code, at=at, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_install_adds_what_is_ours_and_an_uninstall_leaves_nothing(
    others: NewLearner, wheel: Path, kind: str
) -> None:
    before, quiet = tree(others.environment), kernel(others, "theirs", "import course; print(course.MINE)", others.home)
    assert quiet[0] == "True\n"
    install(others, wheel if kind == "wheel" else None)
    installed = tree(others.environment)
    assert installed.items() >= before.items(), "a file of theirs is changed or gone"
    added = sorted(installed.keys() - before.keys())
    assert [path for path in added if not f"{path}/".startswith(OURS)] == []
    assert kernel(others, "theirs", "import course; print(course.MINE)", others.home) == quiet
    assert kernel(others, "mini-vllm-labs", "import course; print(course.MINE)", others.home) == quiet
    others.pip("uninstall", "--yes", "mini-vllm-labs")
    assert tree(others.environment) == before


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_the_notebooks_run_on_the_code_of_their_folder_whatever_else_has_its_names(
    others: NewLearner, wheel: Path, kind: str
) -> None:
    install(others, wheel if kind == "wheel" else None)
    folder = CHECKOUT
    if kind == "wheel":
        assert others.types("mini-vllm", "start", "my-labs", at=others.home).returncode == 0
        folder = others.folder
    code = "import mini_vllm, mini_vllm_labs, subprocess, sys\n"
    code += "print(mini_vllm.__file__, mini_vllm_labs.__file__, flush=True)\n"
    code += "print(subprocess.getoutput(f'cd / && {sys.executable} -c \"import labs; print(labs.__file__)\"'))\nnot_yet"
    printed, errors = kernel(others, "mini-vllm-labs", code, folder / "notebooks")
    files = [str(folder / name / "__init__.py") for name in ("mini_vllm", "mini_vllm_labs", "labs")]
    assert printed.split() == files
    assert "Run all cells above first" in errors


@pytest.mark.parametrize("name", ["mini-vllm-labs", "theirs"])
def test_a_notebook_of_a_wheels_folder_runs_outside_mini_vllm_lab(others: NewLearner, wheel: Path, name: str) -> None:
    for package in ("bench", "cli", "course", "labs", "solutions"):
        shutil.rmtree(others.environment / SITE / package)
    install(others, wheel)
    assert others.types("mini-vllm", "start", "my-labs", at=others.home).returncode == 0
    convert = ["-m", "nbconvert", "--execute", "--to", "notebook", "--stdout", "01_scheduler_step.ipynb"]
    kernels = [] if name == "mini-vllm-labs" else [f"--ExecutePreprocessor.kernel_name={name}"]
    done = others.types("python", *convert, *kernels, at=others.folder / "notebooks")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ename" not in done.stdout


@pytest.mark.parametrize(
    ("course", "build", "said"),
    [
        ("edition", "wheel", "A student edition cannot be installed as a copy."),
        ("edition", "sdist", "The course has no source distribution"),
        ("checkout", "sdist", "The course has no source distribution"),
        ("written", "wheel", "starters are not empty: phase 1 clamp."),
    ],
)
def test_a_build_that_would_hold_answers_is_refused_in_a_sentence_before_anything_is_downloaded(
    request: pytest.FixtureRequest, tmp_path: Path, course: str, build: str, said: str
) -> None:
    folder = CHECKOUT
    if course == "edition":
        folder = request.getfixturevalue("student")
    if course == "written":
        folder = Path(shutil.copytree(CHECKOUT, tmp_path / "written", ignore=LARGE))
        write_function(starter_path(1, folder), "clamp", folder / "solutions" / "phase1_scheduler_step.py")
    command = ["-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--wheel-dir", str(tmp_path), str(folder)]
    if build == "sdist":
        program = "import sys; sys.path.insert(0, sys.argv[1]); import course_build as it; it.build_sdist('.')"
        command = ["-c", program, str(folder / "mini_vllm_labs/upkeep/build_backend")]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    assert (done.returncode, list(tmp_path.glob("*.whl"))) == (1, [])
    assert said in printed
    assert "python lab.py demo" in printed
    assert "Traceback" not in printed
    assert "Collecting" not in printed
