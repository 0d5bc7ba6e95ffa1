"""The packages that a server in a notebook needs, and the notice that names those that are missing."""

from collections.abc import Sequence
from importlib.util import find_spec

from course.notebook.notice import Notice

CLIENT = ("openai", "prometheus_client")
SERVER = (*CLIENT, "fastapi", "uvicorn", "httptools")
INSTALL = "%pip install -c ../constraints.txt"


def missing_extras(needed: Sequence[str]) -> Notice | None:
    """Return a `Notice` with the line that installs what is missing, None if nothing is."""
    missing = [name for name in needed if find_spec(name) is None]
    if not missing:
        return None
    text = "The rest of the course does without. Run this line in a cell, restart the kernel, and run all cells again:"
    return Notice(f"This notebook needs {', '.join(missing)}", text, " ".join([INSTALL, *missing]))
