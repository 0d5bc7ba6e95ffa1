"""Finds the files for a phase's jail: those that the worker, the starters and the phase's plays import."""

import ast
import json
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.starter_file import JAIL_MODULES
from mini_vllm_labs.runs.starter_status import LABS, lab_folder

ENGINE = "mini_vllm/"
SEEN = (
    ENGINE,
    "mini_vllm_labs/__init__.py",
    "mini_vllm_labs/runs/sandbox",
    "mini_vllm_labs/classroom/__init__.py",
    "mini_vllm_labs/classroom/worker",
    "mini_vllm_labs/grading/plays",  # public anyway, because this folder contains no right answers
)
WHOLE_ENGINE = 0  # stands for the check of phases 1 to 5 in one engine, which earns no points
ONLY_TOGETHER = "mini_vllm_labs/classroom/worker/scenario.py"
ALWAYS = (  # everything that learners may use or that the worker imports by name
    "mini_vllm/core/cdiv.py",
    "mini_vllm_labs/classroom/worker/inside.py",
    "mini_vllm_labs/grading/plays/device_tensors.py",
)


def copy_course(phase: int, target: Path) -> None:
    """Copy the files that a phase's workers need, including their compiled versions."""
    for name in needed_files(phase):
        for source in (CHECKOUT / name, Path(cache_from_source(str(CHECKOUT / name)))):
            if source.exists():
                copy = target / source.relative_to(CHECKOUT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                # with its modification time, which Python compares with the time in the bytecode
                shutil.copy2(source, copy)


@cache
def needed_files(phase: int) -> frozenset[str]:
    """Return the files, relative to the checkout, that a phase's plays, the worker and every starter import.

    A submission may import its author's other starters, so all of them must run in each jail. The reference's imports
    are used instead of the starters' (they are the same), because a teacher may have changed the starters. For
    `WHOLE_ENGINE`, the result is all of `SEEN`.
    """
    if phase == WHOLE_ENGINE:
        paths = [path for name in SEEN for path in (CHECKOUT / name, *(CHECKOUT / name).rglob("*.py"))]
        return frozenset(str(path.relative_to(CHECKOUT)) for path in paths if path.is_file())
    found = set[str]()
    waiting = [*ALWAYS, f"mini_vllm_labs/grading/plays/phase{phase}_plays.py"]
    waiting += [name for number in LABS for name in imported(reference_path(number), is_engine=True)]
    while waiting:
        name = waiting.pop()
        if name not in found and name.startswith(SEEN) and name != ONLY_TOGETHER:
            found.add(name)
            waiting += imported(CHECKOUT / name, is_engine=name.startswith(ENGINE))
    return frozenset(found)


def modules_in_jails() -> dict[str, list[str]]:
    """Return the engine modules in all phases' jails, and those that one phase's jail adds, keyed by phase number."""
    modules = {phase: {module_of(name) for name in needed_files(phase) if name.startswith(ENGINE)} for phase in LABS}
    everywhere = set.intersection(*modules.values())
    more = {str(phase): sorted(own - everywhere) for phase, own in modules.items() if own > everywhere}
    return {"every phase": sorted(everywhere), **more}


def module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def reference_path(phase: int) -> Path:
    return CHECKOUT / "solutions" / f"{lab_folder(phase)}.py"


def imported(path: Path, *, is_engine: bool) -> Iterator[str]:
    """Yield the course files that a file imports; in the engine, only at the top level."""
    tree = ast.parse(path.read_bytes())
    for node in tree.body if is_engine else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from files_of(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from files_of(alias.name for alias in node.names)


def files_of(modules: Iterable[str]) -> Iterator[str]:
    """Yield the files that define modules of the course, and those of the packages that contain them."""
    for module in modules:
        parts = module.split(".")
        for path in ("/".join(parts[:number]) for number in range(1, len(parts) + 1)):
            yield from (name for name in (f"{path}/__init__.py", f"{path}.py") if (CHECKOUT / name).is_file())


def modules_text() -> str:
    return json.dumps(modules_in_jails(), indent=1) + "\n"


if __name__ == "__main__":
    JAIL_MODULES.write_text(modules_text(), encoding="utf-8")
