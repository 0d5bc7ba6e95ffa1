"""Commands that are listed by a line of help and imported when they are run: `mini-vllm` starts at once."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

Row = tuple[str, str, str]
"""A command: its name, the function that runs it, as `module:function` in its package, and its help in a sentence."""


def load(name: str, target: str) -> Any:
    """Import a function and return it as a command of typer's, with its module's `CONTEXT` if there is one."""
    place, _, function = target.partition(":")
    module = import_module(place)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, context_settings=getattr(module, "CONTEXT", None))(getattr(module, function))
    return typer.main.get_command(app)


def lazy_app(package: str, groups: Mapping[str, Sequence[Row]], **settings: Any) -> typer.Typer:
    """Return an app with commands under headings; `package` holds their modules, `settings` are `typer.Typer`'s."""
    targets = {name: f"{package}.{target}" for rows in groups.values() for name, target, _ in rows}

    class LazyGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, listed, rest = super().resolve_command(ctx, args)
            return name, load(name, targets[name]) if name in targets else listed, rest

        def get_help_option(self, ctx: Any) -> Any:
            # Typer coerces a flag that is not given, unless it is False, by pydantic, which takes 0.1 s to import.
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
