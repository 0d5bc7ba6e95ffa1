"""nbformat's functions, with the type annotations that the library lacks, and the data files next to the tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import yaml

_read: Callable[..., nbformat.NotebookNode] = nbformat.read
write: Callable[[nbformat.NotebookNode, object], None] = nbformat.write
new_code_cell: Callable[[str], nbformat.NotebookNode] = nbformat.v4.new_code_cell


def read(path: object) -> nbformat.NotebookNode:
    return _read(path, as_version=4)


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))
    return content
