"""Finds the phases that the learner has written, by reading the starters without running them.

A function counts as unwritten while it can still reach our `NotImplementedError("Phase 3, task 2: ...")`.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT, PHASE_NAMES, Lineup, parse_lineup

OURS = re.compile(r"Phase (\d+), tasks? (\d+)")
LABS = range(1, len(ALL_NAMES) + 1)


def lab_folder(phase: int) -> str:
    """Return the name of a phase's folder in `labs/`, which is also the name of its module in `solutions/`."""
    return f"phase{phase}_{ALL_NAMES[phase - 1]}".lower().replace(" ", "_")


def phase_in(folder: str) -> int:
    """Return the phase that a folder in `labs/` belongs to, or 0 if it is not a phase's folder."""
    return next((phase for phase in LABS if lab_folder(phase) == folder), 0)


def starter_path(phase: int, checkout: Path = CHECKOUT) -> Path:
    return checkout / "labs" / lab_folder(phase) / "starter.py"


def starter_stamps(checkout: Path = CHECKOUT) -> tuple[int, ...]:
    """Return the modification times of all starters; saving a starter changes its time."""
    return tuple(path.stat().st_mtime_ns for path in sorted(checkout.glob("labs/*/starter.py")))


def unwritten_tasks(phase: int, checkout: Path = CHECKOUT) -> list[str]:
    """Return the unwritten tasks, such as `Phase 1, task 1: clamp`, in task order.

    For a file that is missing or cannot be parsed, there is one entry with the reason.
    """
    path = starter_path(phase, checkout)
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        where = path.relative_to(checkout).as_posix()
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        problem = error.msg if isinstance(error, SyntaxError) else error
        return [f"Phase {phase}: {where}{line} cannot be read ({problem})"]
    return unwritten_in(tree)


def unwritten_in(tree: ast.AST) -> list[str]:
    """Return the unwritten tasks of a parsed starter, in task order."""
    return sorted((message for function in functions(tree) for message in _reached(function.body)), key=_place)


def written_phases(checkout: Path = CHECKOUT) -> list[int]:
    """Return the course's phases that have no unwritten tasks."""
    return [phase for phase in range(1, len(PHASE_NAMES) + 1) if not unwritten_tasks(phase, checkout)]


def written_electives(checkout: Path = CHECKOUT) -> list[int]:
    electives = range(len(PHASE_NAMES) + 1, len(ALL_NAMES) + 1)
    return [phase for phase in electives if not unwritten_tasks(phase, checkout)]


def written_lineup(checkout: Path = CHECKOUT) -> Lineup | None:
    """Return the lineup of all written phases that can run together, or None if phase 1 is unwritten.

    The lineup includes written electives; an engine uses them if its settings enable drafts or steps in flight.

    A prefix cache (phase 4) is omitted if there is no block pool (phase 2).
    """
    written = written_phases(checkout)
    if 1 not in written:
        return None
    chosen = [phase for phase in written if phase != 4 or 2 in written] + written_electives(checkout)
    return parse_lineup(",".join(f"starter:{phase}" for phase in chosen))


def describe(lineup: Lineup) -> str:
    """Return the same text as `Lineup.describe`, but mark code as yours only once it has been written."""
    items = lineup.describe().split(", ")
    for index, item in enumerate(items):
        phase = int(item.partition(" ")[0])
        if lineup[phase] == "starter" and unwritten_tasks(phase):
            items[index] = item.replace("yours", "yours in part" if is_begun(phase) else "not written")
    return ", ".join(items)


def is_begun(phase: int) -> bool:
    """Return whether the learner has begun a starter, or False if the file does not exist."""
    try:
        return bool(touched_functions(phase))
    except OSError:
        return False
    except (SyntaxError, ValueError, RecursionError):
        return True


def touched_functions(phase: int, checkout: Path = CHECKOUT) -> list[str]:
    """Return the names of the starter's functions that contain more than a docstring and our error.

    Raises `OSError` or `SyntaxError` if the file cannot be read.
    """
    return touched_in(starter_path(phase, checkout))


def touched_in(path: Path) -> list[str]:
    """Return the same names as `touched_functions` for one file."""
    tree = ast.parse(path.read_bytes())
    touched = []
    for function in functions(tree):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        if len(body) != 1 or message_of(body[0]) is None:
            touched.append(function.name)
    return touched


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def message_of(statement: ast.stmt) -> str | None:
    if not (isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call)):
        return None
    call = statement.exc
    if not (isinstance(call.func, ast.Name) and call.func.id == "NotImplementedError" and len(call.args) == 1):
        return None
    (message,) = call.args
    if isinstance(message, ast.Constant) and isinstance(message.value, str) and OURS.match(message.value):
        return message.value
    return None


def _reached(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the messages of our errors in a body, up to the first statement that always leaves it."""
    for statement in body:
        message = message_of(statement)
        if message is not None:
            yield message
        for block in _blocks(statement):
            yield from _reached(block)
        if _leaves(statement):
            return


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """Yield the bodies within a statement. A nested function is checked separately."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for name in ("handlers", "cases"):
        yield from (clause.body for clause in getattr(statement, name, []))


def _leaves(statement: ast.stmt) -> bool:
    """Return whether the code after the statement can never be reached, or False if in doubt."""
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and _leaves(statement.body[-1]) and _leaves(statement.orelse[-1])
    if isinstance(statement, ast.With):
        return _leaves(statement.body[-1])
    return isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break)


def _place(message: str) -> tuple[int, int]:
    found = OURS.match(message)
    return (int(found[1]), int(found[2])) if found else (0, 0)
