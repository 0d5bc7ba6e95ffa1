"""Set up and run, with nothing but Python: `python lab.py demo`, `test`, `lab` or `lint`.

The first call makes `.venv` and installs into it; later calls start at once, unless `pyproject.toml` or
`constraints.txt` has changed. `make` calls this file, and it works where there is no make.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / ".ready"
SOURCES = (ROOT / "pyproject.toml", ROOT / "constraints.txt")

COMMANDS = {
    "demo": [["-m", "course", "demo"]],
    "test": [["-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "--nbval-lax", "tests", "labs", "notebooks"]],
    "lab": [["-m", "jupyterlab", "--ServerApp.root_dir=.", "--LabApp.default_url=/lab/tree/notebooks"]],
    "lint": [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
        ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
    ],
}


def set_up() -> None:
    """Make the virtual environment, unless it is there and newer than what it was made from."""
    if sys.version_info < (3, 11):  # noqa: UP036  (an older Python runs this file to be told so)
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
    if STAMP.exists() and STAMP.stat().st_mtime > max(source.stat().st_mtime for source in SOURCES):
        return
    print("Setting up .venv: one or two minutes, about 1.5 GB ...", flush=True)
    venv.create(VENV, with_pip=True)
    install = [PYTHON, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
    subprocess.check_call([*install, "--editable", ".[test,mutants]"], cwd=ROOT)
    STAMP.touch()


def main() -> int:
    """Set up, then run one command; more arguments are passed on to its last step."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python lab.py {{{','.join(COMMANDS)}}} [more arguments]", file=sys.stderr)
        return 2
    try:
        set_up()
    except subprocess.CalledProcessError as error:
        print(f"The installation failed (exit code {error.returncode}); its message is above.", file=sys.stderr)
        print("Without network pip needs the wheels that constraints.txt names.", file=sys.stderr)
        return 1
    *first, last = COMMANDS[sys.argv[1]]
    for step in [*first, [*last, *sys.argv[2:]]]:
        code = subprocess.call([PYTHON, *step], cwd=ROOT)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
