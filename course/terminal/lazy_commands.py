"""Commands that are listed by a line of help and imported when they are run: `mini-vllm` starts at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


@dataclass(frozen=True)
class LazyCommand:
    """A command: its name, the function that runs it, as `module:function`, and the first sentence of its help."""

    name: str
    target: str
    help: str

    def load(self) -> Any:
        """Import the function and return it as a command of typer's."""
        module, _, function = self.target.partition(":")
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name)(getattr(import_module(module), function))
        return typer.main.get_command(app)


def lazy_app(commands: Sequence[LazyCommand], **settings: Any) -> typer.Typer:
    """Return an app with these commands; `settings` are those of `typer.Typer`."""
    by_name = {command.name: command for command in commands}

    class LazyGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, listed, rest = super().resolve_command(ctx, args)
            return name, by_name[name].load() if name in by_name else listed, rest

    def listed() -> None: ...

    app = typer.Typer(cls=LazyGroup, no_args_is_help=True, **settings)
    for command in commands:
        app.command(command.name, help=command.help)(listed)
    return app
