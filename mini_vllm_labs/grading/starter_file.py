"""Checks the learner's file: whether it exists, what it contains, and why it cannot be imported."""

import ast
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.sandbox.explain import place_in, shown_path
from mini_vllm_labs.runs.sandbox.imports import imported_names, refused_import
from mini_vllm_labs.runs.sandbox.source_text import complaint_about_content, newer_syntax, whereabouts

DEBUGGERS = ("breakpoint", "set_trace")
JAIL_MODULES = Path(__file__).with_name("jail_modules.json")  # python -m mini_vllm_labs.classroom.judge.needed_files


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def complaint_about_file(path: Path) -> str:
    """Return why a file must not be imported; empty if it is readable and has only allowed imports."""
    name = shown_path(path)
    if not path.is_file():
        restore = f"git checkout -- {name}" if (CHECKOUT / ".git").exists() else "mini-vllm start --update"
        return f"{name} is missing. `{restore}` restores the original."
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}."
    if complaint := complaint_about_content(content):
        return f"{name}: {complaint}"
    refusal = refused_import(content)
    return f"{name}, {refusal}" if refusal else ""


def forgotten_breakpoints(content: bytes) -> str:
    """Return a sentence naming the lines that start a debugger, or an empty string."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""  # importing the file shows the error
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    lines = sorted({call.lineno for call in calls if ast.unparse(call.func).split(".")[-1] in DEBUGGERS})
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    return f"Your file starts a debugger in {where}. Grading skips it; remove it before you hand the file in." * bool(
        lines
    )


def modules_without_points(content: bytes, phase: int) -> str:
    """Return a sentence naming imported engine modules that are missing from the judge's jail, or an empty string."""
    known: dict[str, list[str]] = json.loads(JAIL_MODULES.read_text(encoding="utf-8"))
    allowed = {*known["every phase"], *known.get(str(phase), [])}
    lacking = dict[str, int]()
    for line, name in imported_names(content):
        module = next((one for one in (name, name.rpartition(".")[0]) if is_engine_module(one)), None)
        if module is not None and module not in allowed:
            lacking.setdefault(module, line)
    shown = ", ".join(f"{module} (line {line})" for module, line in lacking.items())
    return f"Your file imports {shown}. The judge does not have this, so the phase gets no points there." * bool(shown)


def is_engine_module(name: str) -> bool:
    path = CHECKOUT / name.replace(".", "/")
    is_file = path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
    return name.partition(".")[0] == "mini_vllm" and is_file


def import_starter(module: str) -> ModuleType:
    """Import a learner's file from its source, because the bytecode of an older version may look current.

    Environment variables that the file removes are restored, because `LAB_IMPL` decides whose code the tests grade.
    """
    before, sys.pycache_prefix = sys.pycache_prefix, "/dev/null"
    environment = dict(os.environ)
    try:
        return importlib.import_module(module)
    finally:
        sys.pycache_prefix = before
        os.environ |= environment | os.environ


def complaint_about_import(error: BaseException, path: Path) -> str:
    """Return why a learner's file cannot be imported."""
    name = shown_path(path)
    if isinstance(error, SyntaxError):
        line = f"\n    {error.text.strip()}" if error.text else ""
        where = name if error.filename in (None, str(path)) else str(error.filename)
        return f"{where} has a syntax error in line {error.lineno}: {error.msg}{line}\n{newer_syntax(error)}"
    if isinstance(error, SystemExit):
        return f"{name} ends the program while it is imported: {place_in(error) or 'sys.exit'}."
    told = f"{name} cannot be imported. {type(error).__name__}: {error}\n  {place_in(error)}".rstrip()
    return f"{told}\n{whereabouts(error)}".rstrip()


def missing_names(module: ModuleType, names: Sequence[str]) -> list[str]:
    """Return a sentence for every public name of the phase that is missing from the module."""
    sentences = []
    for name in names:
        owner, _, inner = name.rpartition(".")
        holder = getattr(module, owner, None) if owner else module
        if holder is None or hasattr(holder, inner):  # if a class is missing, name only the class and not its methods
            continue
        others = [other for other in vars(holder) if (f"{owner}.{other}" if owner else other) not in names]
        similar = get_close_matches(inner, others, 1, 0.6)
        sentences.append(f"{name} is missing from starter.py" + (f" (there is {similar[0]!r})" if similar else ""))
    return sentences
