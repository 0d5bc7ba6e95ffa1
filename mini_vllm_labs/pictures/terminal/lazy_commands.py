"""Lists commands by a line of help and imports them only when they run, so that `mini-vllm` starts at once."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

Row = tuple[str, str, str]
"""A command: its name, the function that runs it, as `module:function` in its package, and its help in a sentence."""


def load(name: str, target: str) -> Any:
    """Import a function and return it as a typer command, with its module's `CONTEXT` if defined."""
    place, _, function = target.partition(":")
    module = import_module(place)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, context_settings=getattr(module, "CONTEXT", None))(getattr(module, function))
    return typer.main.get_command(app)


def lazy_app(package: str, groups: Mapping[str, Sequence[Row]], **settings: Any) -> typer.Typer:
    """Return an app with commands under headings. `package` contains their modules; `settings` go to `typer.Typer`."""
    targets = {name: f"{package}.{target}" for rows in groups.values() for name, target, _ in rows}

    class LazyGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, listed, rest = super().resolve_command(ctx, args)
            return name, load(name, targets[name]) if name in targets else listed, rest

        def get_help_option(self, ctx: Any) -> Any:
            # Typer coerces an absent flag with pydantic, which takes 0.1 s to import, unless its default is False.
            option = super().get_help_option(ctx)
            if option is not None:
                option.default = False
            return option

    def listed() -> None: ...

    app = typer.Typer(cls=LazyGroup, no_args_is_help=True, **settings)
    for heading, rows in groups.items():
        for name, _, text in rows:
            app.command(name, help=text, rich_help_panel=heading)(listed)
    return app
