"""Creates the virtual environment for a benchmark peer."""

import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path


def run_pip(python: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
    """Run pip in `python`'s environment, creating the environment if it is missing. Exits with pip's code if pip
    fails."""
    if not python.exists():
        print(f"making {python.parents[1]}", flush=True)
        venv.create(python.parents[1], with_pip=True)
    if code := subprocess.run([str(python), "-m", "pip", *arguments], check=False, env=variables).returncode:
        sys.exit(code)
