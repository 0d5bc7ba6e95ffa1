"""Groups a command's options into dataclasses, so that related options form one argument."""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

R = TypeVar("R")


def with_option_groups(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command one option for each field of its dataclass parameters, and pass it the dataclasses.

    A field is declared like a parameter: `seed: Annotated[int, typer.Option(help="...")] = 0`.
    """
    parameters = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}

    @functools.wraps(command)
    def with_groups(**given: Any) -> R:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    def expanded() -> Iterator[inspect.Parameter]:
        for each in parameters:
            yield from options_of(groups[each.name]) if each.name in groups else [each.replace(kind=each.KEYWORD_ONLY)]

    # Typer reads a command's options from its signature.
    with_groups.__signature__ = inspect.Signature(list(expanded()))  # type: ignore[attr-defined]
    return with_groups


def options_of(group: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of a dataclass as parameters."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
        )
