"""nbformat's functions with types: the library has none."""

from collections.abc import Callable

import nbformat

_read: Callable[..., nbformat.NotebookNode] = nbformat.read
write: Callable[[nbformat.NotebookNode, object], None] = nbformat.write
new_code_cell: Callable[[str], nbformat.NotebookNode] = nbformat.v4.new_code_cell


def read(path: object) -> nbformat.NotebookNode:
    """Return a notebook in format 4."""
    return _read(path, as_version=4)
