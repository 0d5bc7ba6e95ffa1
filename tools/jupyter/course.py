"""A copy of the course in another folder, which may be edited and run."""

import shutil
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT

COPIED = ("conftest.py", "pyproject.toml", "labs", "mini_vllm", "course", "bench", "serving", "notebooks", "solutions")
NOT_COPIED = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "*.gz")


def copy_course(folder: Path) -> Path:
    """Copy what the notebooks need into a new folder, and return it."""
    folder.mkdir(parents=True)
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=NOT_COPIED)
        else:
            shutil.copy(source, folder / name)
    return folder
