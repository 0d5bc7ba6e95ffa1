"""`mini-vllm info`: whether this machine is ready, and how to fix it if not."""

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from cli.checks import Check, all_checks
from course.terminal.console import friendly, make_console

STYLES = {"OK": "green", "warn": "yellow", "missing": "bold red", "wrong": "bold red"}


@friendly
def info() -> None:
    """Check the environment and name the fix for each problem.

    Exit code 1 if something required is wrong.
    """
    console = make_console()
    checks = all_checks()
    console.print(check_table(checks))
    bad = [check.what for check in checks if check.is_bad]
    warned = sum(check.status == "warn" for check in checks)
    if bad:
        console.print(f"Not ready: {', '.join(bad)}. The last column has the fixes.", markup=False)
        raise typer.Exit(1)
    console.print(
        f"Ready{f', with {warned} warnings' if warned else ''}. Next: make demo, or mini-vllm demo.", markup=False
    )


def check_table(checks: list[Check]) -> Table:
    """Return one row per check."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", min_width=7)
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold", ratio=1)
    needs_fixes = any(check.fix for check in checks)
    if needs_fixes:
        table.add_column("what to do", overflow="fold", ratio=1)
    for check in checks:
        fix = [Text(check.fix)] if needs_fixes else []
        table.add_row(Text(check.status, STYLES[check.status]), Text(check.what), Text(check.found), *fix)
    return table
