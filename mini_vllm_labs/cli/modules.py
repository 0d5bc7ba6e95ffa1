"""Commands that run as separate modules, and that pass on the options they receive."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from mini_vllm.assembly.lineup import CHECKOUT

CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["--no-help"]}


def run_module(module: str, name: str, arguments: Sequence[str]) -> NoReturn:
    """Run a module and exit with its code. Exits with 2 if a student edition lacks the module."""
    if not CHECKOUT.joinpath(*module.split(".")).is_dir():
        print(f"error: `{name}` needs a checkout of the course with solutions and tests", file=sys.stderr)
        raise typer.Exit(2)
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", module, *arguments]
    raise typer.Exit(subprocess.call(command, env={**os.environ, "PYTHONPATH": path}))


def _run(module: str, context: typer.Context) -> None:
    run_module(module, str(context.info_name), context.args)


def decks(context: typer.Context) -> None:
    """Write eight slide decks, each a single HTML file that needs no network."""
    _run("mini_vllm_labs.upkeep.decks", context)


def exam(context: typer.Context) -> None:
    """Write an exam based on known mistakes in a phase, and write its answers to another file."""
    _run("tests.mutants.exam", context)


def site(context: typer.Context) -> None:
    """Build the website: the pages, and the lab in a browser tab."""
    _run("mini_vllm_labs.upkeep.site", context)
