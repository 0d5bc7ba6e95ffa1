"""Made-up benchmark peers."""

import sys
from pathlib import Path


def executable(folder: Path, program: str) -> Path:
    """Write a program that runs in place of a peer's Python and receives its arguments."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
    path.chmod(0o755)
    return path
