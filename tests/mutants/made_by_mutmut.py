"""The mutants that mutmut's operators make of a solution: one small change at a time.

mutmut makes them, our harness runs them. Its own runner would copy the tree, put all mutants of a function
into one file behind a switch, and has no notion of lineups.
"""

from collections.abc import Iterator
from contextlib import suppress
from difflib import unified_diff
from importlib.util import find_spec

from tests.mutants.catalog import Subject, reference
from tests.mutants.diffs import DiffError, read_diffs


class NoMutmutError(ImportError):
    """mutmut is not installed. The message gives the command that installs it."""


def made_by_mutmut(phase: int) -> list[Subject]:
    """Return the mutants of a phase's solution, no two alike. Raises `NoMutmutError` if mutmut is not installed."""
    original = reference(phase).text
    name_of_text: dict[str, str] = {}
    for function, text in _mutations(original):
        name_of_text.setdefault(text, f"{function}: {_in_one_line(original, text)}")
    name_of_text.pop(original, None)
    return [Subject(phase, "mutant", name, text) for text, name in name_of_text.items()]


def require_mutmut() -> None:
    """Raise `NoMutmutError` if mutmut is not installed."""
    if find_spec("mutmut") is None:
        raise NoMutmutError('mutmut is not installed; it comes with: pip install -c constraints.txt -e ".[mutants]"')


def as_diff(original: str, text: str, name: str) -> str:
    """Return a mutant as `diffs.py` reads it, with as many lines around the change as make it fit just once."""
    for context in range(len(original.splitlines())):
        diff = f"# {name}\n" + "".join(_changes(original, text, context)).removeprefix("@@\n")
        with suppress(DiffError):
            if read_diffs(diff)[0].apply(original) == text:
                return diff
    raise DiffError(f"{name!r}: not to be written as a diff")


def _in_one_line(original: str, text: str) -> str:
    changes = (line for line in _changes(original, text, context=0) if line[0] in "-+")
    return "  ".join(f"{line[0]}{' '.join(line[1:].split())}" for line in changes)


def _changes(original: str, text: str, context: int) -> Iterator[str]:
    lines = unified_diff(original.splitlines(keepends=True), text.splitlines(keepends=True), n=context)
    for line in list(lines)[2:]:
        yield "@@\n" if line.startswith("@@") else line


def _mutations(original: str) -> Iterator[tuple[str, str]]:
    """Yield for each mutation its function and the whole mutated module."""
    require_mutmut()
    import libcst as cst
    from libcst.metadata import MetadataWrapper
    from mutmut.mutation.file_mutation import MutationVisitor
    from mutmut.mutation.mutators import mutation_operators
    from mutmut.mutation.pragma_handling import IgnoredCode

    class EveryFunction(MutationVisitor):
        """Mutate properties too: mutmut skips decorated functions because of its switches, which we do not use."""

        def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
            return not isinstance(node, cst.FunctionDef) and super()._skip_node_and_children(node)

    visitor = EveryFunction(mutation_operators, IgnoredCode(set(), set(), set()))
    module = MetadataWrapper(cst.parse_module(original)).visit(visitor)
    for mutation in visitor.mutations:
        function = mutation.contained_by_top_level_function
        if isinstance(function, cst.FunctionDef):
            mutated = module.deep_replace(mutation.original_node, mutation.mutated_node)
            assert isinstance(mutated, cst.Module)
            yield function.name.value, mutated.code
