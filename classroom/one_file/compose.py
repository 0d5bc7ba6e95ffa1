"""Write the reference engine, phases 1 to 6 with what they need, as one Python file.

The sources are read as text, so comments and formatting stay. Imports of the course go, the others move to the
top once; a module's docstring becomes the heading of its part.
"""

import ast
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from classroom.one_file.sections import SEAMS, SECTIONS, Section
from mini_vllm.assembly.lineup import CHECKOUT

FILE_NAME = "mini_vllm_one_file.py"
OURS = ("mini_vllm", "solutions", "classroom")
FUNCTIONS = Section(
    "mini_vllm/core/interfaces.py",
    without=(
        *("RequestQueue", "KVCacheManager", "BlockPool", "Preemption", "PrefixCache", "HashBlock", "ChunkPolicy"),
        *("Clamp", "ScheduleStep", "UpdateFromOutput", "ModelRunner"),
    ),
)
TITLE = '''"""A vLLM in {lines:,} lines: continuous batching, paged KV cache, preemption, prefix cache, chunked prefill.

The reference engine of mini-vLLM Labs, made from its sources by `mini-vllm one-file`. Its scheduling decisions
are those of vLLM 0.13.0, block ids included. It needs torch and transformers:

    python {file} "Once upon a time" "One day, a girl"
"""

from __future__ import annotations
'''


def write(folder: Path) -> Path:
    """Write the file and the embedded model beside it; return the file.

    Raises `ValueError` if the folder exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not empty: nothing was written; name a new or an empty folder")
    text = compose()
    shutil.copytree(CHECKOUT / "mini_vllm" / "embedded_model", folder / "embedded_model", dirs_exist_ok=True)
    (folder / FILE_NAME).write_text(text, encoding="utf-8")
    return folder / FILE_NAME


def compose() -> str:
    """Return the text of the file. Raises `ValueError` if two parts define the same name."""
    before = next(number for number, section in enumerate(SECTIONS) if section.path.endswith("core/scheduler.py"))
    parts = [Part(section) for section in (*SECTIONS[:before], FUNCTIONS, *SECTIONS[before:])]
    require_unique(parts)
    seams = "\n".join(f"    {name} = {target}" for name, target in SEAMS.items())
    aliases = f"if TYPE_CHECKING:  # the seams of the course: here each has one implementation\n{seams}"
    *before_main, main = [part.text for part in parts]
    body = "\n\n\n".join([*before_main, aliases, main])
    text = f"{merged_imports(parts, body)}\n\n\n{body.strip()}\n"
    lines = len(TITLE.splitlines()) + len(text.splitlines()) + 1
    return f"{TITLE.format(lines=lines, file=FILE_NAME)}\n{text}"


class Part:
    """One source file: its own definitions as text, and the imports that it needs from elsewhere."""

    def __init__(self, section: Section) -> None:
        source = (CHECKOUT / section.path).read_text(encoding="utf-8")
        self.path = section.path
        self.tree = ast.parse(source)
        self._lines = source.splitlines()
        self._without = set(section.without)
        self.names: list[str] = []
        self.imports = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        self.text = "\n\n\n".join([self._heading(), *self._definitions()])
        if unknown := self._without - set(self.names):
            raise ValueError(f"{section.path} has no {', '.join(sorted(unknown))}: mend sections.py")

    def _heading(self) -> str:
        text = ast.get_docstring(self.tree) or ""
        wrapped = [line for paragraph in text.split("\n\n") for line in ["", *textwrap.wrap(paragraph, 116)]]
        return "\n".join([f"# {'-' * 20} {self.path}", *(f"# {line}".rstrip() for line in wrapped[1:])])

    def _definitions(self) -> Iterator[str]:
        constants: list[str] = []
        for index, node in enumerate(self.tree.body):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.Import | ast.ImportFrom) or (is_text and index == 0):
                continue
            if is_text:  # the docstring of the constant before it
                constants += self._source(node) if constants else []
                continue
            names = list(defined(node))
            self.names += names
            if set(names) & self._without:
                continue
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.If):
                if constants:
                    yield "\n".join(constants)
                    constants = []
                yield "\n".join(self._source(node))
            else:
                constants += self._source(node)
        if constants:
            yield "\n".join(constants)

    def _source(self, node: ast.stmt) -> list[str]:
        first, last = first_line(node), node.end_lineno or 0
        while self._lines[first - 2].startswith("#"):
            first -= 1
        left_out: set[int] = set()
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                for name in defined(inner):
                    self.names.append(f"{node.name}.{name}")
                    if f"{node.name}.{name}" in self._without:
                        left_out |= set(range(first_line(inner), (inner.end_lineno or 0) + 2))
        return [self._lines[number - 1] for number in range(first, last + 1) if number not in left_out]


def first_line(node: ast.stmt) -> int:
    """Return the first line of a statement, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def defined(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield node.name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in targets:
        yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def require_unique(parts: list[Part]) -> None:
    """Raise `ValueError` if a name is defined twice at the top level."""
    names: Counter[str] = Counter()
    for part in parts:
        tree = ast.parse(part.text)
        names.update(name for node in tree.body for name in defined(node))
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise ValueError(f"defined by several parts: {', '.join(twice)}")


def merged_imports(parts: list[Part], body: str) -> str:
    """Return the imports of other packages that `body` uses, once each, standard library first."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    plain: set[str] = set()
    chosen: dict[str, set[str]] = {"typing": {"TYPE_CHECKING"}}
    for node in (node for part in parts for node in part.imports):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) in used:
                    plain.add(f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
        elif node.module and node.module.partition(".")[0] not in OURS:
            names = {alias.name for alias in node.names if alias.name in used}
            if names:
                chosen.setdefault(node.module, set()).update(names)
    froms = [f"from {module} import {', '.join(sorted(names, key=str.lower))}" for module, names in chosen.items()]
    third_party = ("torch", "numpy", "transformers", "tokenizers")
    groups: tuple[list[str], list[str]] = ([], [])
    for line in [*sorted(plain), *sorted(froms)]:
        groups[line.split()[1].startswith(third_party)].append(line)
    return "\n\n".join("\n".join(group) for group in groups if group)
