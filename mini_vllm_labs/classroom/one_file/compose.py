"""Writes the reference engine as one Python file: `mini_vllm.py.in`, with its marks replaced by the solutions' code.

A line `#> PATH` inserts the part of that file that follows its imports. `#> PATH without NAME ...` leaves out the named
functions or methods (`Class.method`).
"""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT

FILE_NAME = "mini_vllm.py"
TEMPLATE = Path(__file__).with_name("mini_vllm.py.in")
MARK = re.compile(r"^#> (\S+)(?: without (.+))?$", re.MULTILINE)
# Each part has only one implementation, so its class takes over the interface's name, which annotations already use.
RENAMED = {
    "PagedKVCacheManager": "KVCacheManager",
    "RecomputePreemption": "Preemption",
    "HashPrefixCache": "PrefixCache",
    "ChunkedPrefillPolicy": "ChunkPolicy",
    "Clamp": "Callable[[int, int, int], int]",
}


def write(folder: Path) -> Path:
    """Write the file and the embedded model into `folder`; return the file's path.

    Raises `ValueError` if the folder exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not empty, so nothing was written: name a new or empty folder")
    text = compose(TEMPLATE.read_text(encoding="utf-8"))
    model = CHECKOUT / "mini_vllm" / "embedded_model"
    shutil.copytree(model, folder / model.name, ignore=shutil.ignore_patterns("draft"), dirs_exist_ok=True)
    (folder / FILE_NAME).write_text(text, encoding="utf-8")
    return folder / FILE_NAME


def compose(template: str) -> str:
    """Replace the marks of a template, and `{lines}` with the number of lines."""
    text = MARK.sub(lambda mark: definitions(CHECKOUT / mark[1], (mark[2] or "").split()), template)
    for name, new_name in RENAMED.items():
        text = re.sub(rf"\b{name}\b", new_name, text)
    return text.replace("{lines}", f"{len(text.splitlines()):,}", 1)


def definitions(path: Path, without: list[str]) -> str:
    """Return the part of a module that follows its imports, omitting the functions and methods named in `without`.

    Raises `ValueError` for a name that the module does not define.
    """
    source = path.read_text(encoding="utf-8")
    body, lines = ast.parse(source).body, source.splitlines()
    functions = dict(_functions(body))
    if unknown := set(without) - functions.keys():
        raise ValueError(f"{path} does not define {', '.join(sorted(unknown))}: correct {TEMPLATE.name}")
    first = max(node.end_lineno or 0 for node in body if isinstance(node, ast.Import | ast.ImportFrom))
    for function in sorted((functions[name] for name in without), key=lambda node: -node.lineno):
        start = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)]) - 1
        while not lines[start - 1] or lines[start - 1].lstrip().startswith("#"):
            start -= 1
        del lines[start : function.end_lineno]
    return "\n".join(lines[first:]).strip()


def _functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
