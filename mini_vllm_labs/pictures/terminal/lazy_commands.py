"""Lists commands with a line of help and imports them only when they run, so that `mini-vllm` starts immediately."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

Row = tuple[str, str, str]
"""A command: its name, the function that runs it, as `module:function` in its package, and its help in a sentence."""
PLAIN = (bool, int, float, str)


class Conversion:
    """Converts a parameter as typer does, but returns missing or already converted values unchanged.

    typer would use pydantic even for those values, and importing pydantic takes 0.1 s.
    """

    def __init__(self, param: Any) -> None:
        self._typers, self._type = param.get_runtime_param, param.type_descriptor.annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_absent = value is None and not param.multiple and param.nargs == 1
        if is_absent or (self._type in PLAIN and type(value) is self._type):
            return value
        return self._typers().coerce(value, param=param, ctx=ctx)


def quick(params: list[Any]) -> list[Any]:
    """Apply our conversion to parameters, unless this release of typer has no conversion to replace."""
    for param in params:
        if hasattr(param, "get_runtime_param"):
            ours = Conversion(param)
            vars(param).setdefault("get_runtime_param", lambda ours=ours: ours)
    return params


class QuickCommand(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return quick(super().get_params(ctx))


def load(name: str, target: str) -> Any:
    """Import a function and return it as a typer command, with its module's `CONTEXT` if defined."""
    place, _, function = target.partition(":")
    module = import_module(place)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, cls=QuickCommand, context_settings=getattr(module, "CONTEXT", None))(getattr(module, function))
    return typer.main.get_command(app)


def lazy_app(package: str, groups: Mapping[str, Sequence[Row]], **settings: Any) -> typer.Typer:
    """Return an app with commands under headings. `package` contains the commands' modules; `settings` are passed to
    `typer.Typer`."""
    targets = {name: f"{package}.{target}" for rows in groups.values() for name, target, _ in rows}

    class LazyGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, listed, rest = super().resolve_command(ctx, args)
            return name, load(name, targets[name]) if name in targets else listed, rest

        def get_params(self, ctx: Any) -> list[Any]:
            return quick(super().get_params(ctx))

    def listed() -> None: ...

    app = typer.Typer(cls=LazyGroup, no_args_is_help=True, **settings)
    for heading, rows in groups.items():
        for name, _, text in rows:
            app.command(name, help=text, rich_help_panel=heading)(listed)
    return app
