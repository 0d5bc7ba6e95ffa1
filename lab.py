"""Set up and run the course with nothing but Python: `python lab.py demo`, `test`, `test-all`, `wheel`, `lab`, `lint`.

The first call creates `.venv` and installs the course into it. Later calls start immediately unless `pyproject.toml` or
`constraints.txt` has changed. `make` calls this file, which also works on systems without make.

`--torch` chooses the build of PyTorch that the first call installs. On Linux, pip's own choice includes several
gigabytes of CUDA libraries; `cpu` uses the build from PyTorch's CPU index instead. `auto`, the default, means `cpu` on
Linux without an NVIDIA driver, and pip's own choice (`pip`) everywhere else.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = next(folder for folder in (HERE, *HERE.parents) if (folder / "pyproject.toml").is_file())
CONSTRAINTS = HERE / "constraints.txt"
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / ".ready"
SOURCES = (ROOT / "pyproject.toml", CONSTRAINTS)

PIP = ["-m", "pip", "install", "--constraint", CONSTRAINTS.relative_to(ROOT).as_posix()]
COURSE = [*PIP, "--quiet", "--editable", ".[test,judge,serve,structured]"]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# with solutions
# In a clone, git then refuses commit subjects longer than 72 characters. pre-commit also runs any hook that already
# existed.
HOOK = ["-m", "pre_commit", "install", "--hook-type", "commit-msg"]

# Workers get the files in collection order. The long files come first, so that no core is left idle at the end.
PYTEST = ["-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
PYTEST += ["-p", "nbval.plugin", "--nbval-lax"]
# These tests check the installation and the engine: graded tests on the reference, vLLM's recorded decisions, agreement
# with transformers, the documents, and one whole notebook. Contributors need the other tests: long engine runs,
# commands, editions, figures quoted in texts, grading, the judge, widgets, benchmarks.
FIRST_PLACES = ["tests/course", "tests/model", "tests/engine", "notebooks/00_tour.ipynb", "labs"]
FIRST_PLACES += ["labs/phase6_gpu_runner/optional_task6_9_c.py"]
LONG_TESTS = ["tests/engine/test_interrupts.py", "tests/engine/test_state_machine.py", "tests/engine/test_every_mix.py"]
LONG_TESTS += ["tests/engine/test_parity_newer.py", "tests/engine/test_public_bugs.py"]
LONG_TESTS += ["tests/model/test_lost_blocks.py", "tests/model/test_kv_transfer.py", "tests/model/test_draft_model.py"]
LONG_TESTS += ["tests/model/test_architectures.py", "tests/model/test_long_texts.py"]
FIRST_TESTS = [*FIRST_PLACES, *(f"--ignore={path}" for path in LONG_TESTS)]
OTHER_TESTS = ["tests", "notebooks", *(f"--ignore={path}" for path in FIRST_PLACES)]
# end

COMMANDS = {
    "demo": [["-m", "mini_vllm_labs.cli", "demo"]],
    # with solutions
    "test": [[*PYTEST, *FIRST_TESTS]],
    "wheel": [["-m", "mini_vllm_labs.cli", "release", "--wheel", "dist"]],
    "test-all": [
        [*PYTEST, *FIRST_TESTS],
        ["-m", "tests.mutants", "--quiet"],
        [*PYTEST, *LONG_TESTS],
        [*PYTEST, *OTHER_TESTS],
    ],
    "site": [
        ["-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", ".[site]"],
        ["-m", "mini_vllm_labs.upkeep.site"],
    ],
    # end
    "lab": [["-m", "mini_vllm_labs.cli", "lab"]],
    "lint": [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
        # with solutions
        ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        # end
    ],
}


def is_set_up() -> bool:
    """Return whether `.venv` exists and is newer than the files it depends on."""
    return STAMP.exists() and STAMP.stat().st_mtime > max(source.stat().st_mtime for source in SOURCES)


def chosen_torch(option: str) -> str:
    """Return "cpu" or "pip", the build of PyTorch that `--torch` selects on this machine."""
    if option != "auto":
        return option
    return "cpu" if sys.platform == "linux" and not shutil.which("nvidia-smi") else "pip"


def cpu_installs() -> list[list[str]]:
    """Return the ways to install PyTorch's CPU build, best first.

    The first uses a wheel from pip's configured `find-links` and needs no network; the second uses PyTorch's CPU index.
    Neither installs dependencies: those come from the usual index, together with the course.
    """
    torch = [*PIP, "--no-deps", "torch"]
    return [[*torch, "--quiet", "--no-index"], [*torch, "--index-url", CPU_INDEX]]


def install_cpu_torch(*, is_required: bool) -> None:
    """Install PyTorch's CPU build.

    Raises `subprocess.CalledProcessError` if the build is unavailable and `is_required` is set; otherwise pip's own
    choice is installed later.
    """
    from_links, from_index = cpu_installs()
    if subprocess.call([PYTHON, *from_links], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
        return
    code = subprocess.call([PYTHON, *from_index], cwd=ROOT)
    if code and is_required:
        raise subprocess.CalledProcessError(code, from_index)
    if code:
        print(f"{CPU_INDEX} gave no CPU build of PyTorch (see above); pip's own choice follows.", flush=True)


def set_up(torch: str) -> None:
    """Create the virtual environment and install the course. Raises `subprocess.CalledProcessError` if pip fails."""
    build = "PyTorch's CPU build" if chosen_torch(torch) == "cpu" else "pip's choice of PyTorch"
    print(f"Setting up .venv with {build}: one or two minutes, about 1.8 GB ...", flush=True)
    # Link it as `python -m venv` would, because the folder may already exist.
    venv.create(VENV, with_pip=True, symlinks=os.name != "nt")
    if chosen_torch(torch) == "cpu":
        install_cpu_torch(is_required=torch == "cpu")
    subprocess.check_call([PYTHON, *COURSE], cwd=ROOT)
    # with solutions
    if (ROOT / ".git").exists():
        subprocess.call([PYTHON, *HOOK], cwd=ROOT)
    # end
    STAMP.touch()


def print_plan(torch: str, steps: Sequence[Sequence[str]]) -> None:
    """Print the commands that a first call would run, one per line."""
    plan: list[Sequence[Sequence[str]]] = [[["-m", "venv", ".venv"]], [COURSE], *([step] for step in steps)]
    if chosen_torch(torch) == "cpu":
        plan.insert(1, cpu_installs())
    # with solutions
    if (ROOT / ".git").exists():
        plan.insert(-len(steps), [HOOK])
    # end
    for ways in plan:
        print(" || ".join(shlex.join(["python", *way]) for way in ways))


def options() -> tuple[argparse.Namespace, list[str]]:
    """Return this file's options, and the remaining arguments, which are passed to the command's last step."""
    parser = argparse.ArgumentParser(prog="python lab.py", description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--torch", choices=("auto", "cpu", "pip"), default="auto", help="which build of PyTorch")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of a first call, and run none")
    return parser.parse_known_args()


def main() -> int:
    """Set up if necessary, then run one command. Unknown arguments are passed to the command's last step."""
    if sys.version_info < (3, 11):  # noqa: UP036  (an older Python gets this message, not a traceback)
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
    chosen, extra = options()
    *first, last = COMMANDS[chosen.command]
    steps = [*first, [*last, *extra]]
    if chosen.dry_run:
        print_plan(chosen.torch, steps)
        return 0
    if not is_set_up():
        try:
            set_up(chosen.torch)
        except subprocess.CalledProcessError as error:
            print(f"The installation failed (exit code {error.returncode}); pip's message is above.", file=sys.stderr)
            print("Without a network pip needs the wheels that constraints.txt names.", file=sys.stderr)
            return 1
    for step in steps:
        code = subprocess.call([PYTHON, *step], cwd=ROOT)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
