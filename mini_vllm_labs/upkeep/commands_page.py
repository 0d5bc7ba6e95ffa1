"""Writes `docs/commands.md`, which lists every `mini-vllm` command under its heading, described as in `--help`.

Run it as `python -m mini_vllm_labs.upkeep.commands_page`.
"""

from collections.abc import Iterator
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.environment import VARIABLES
from mini_vllm_labs.cli.bench.main import COMMANDS as BENCHMARKS
from mini_vllm_labs.cli.main import COMMANDS
from mini_vllm_labs.pictures.terminal.lazy_commands import load

PAGE = CHECKOUT / "docs" / "commands.md"
HEAD = """\
# Commands

`python -m mini_vllm_labs.upkeep.commands_page` makes this page from what `--help` prints. `mini-vllm COMMAND --help`
explains each option. `mini-vllm --install-completion` lets your shell complete commands and options.
"""
VARIABLES_HEAD = """
## Environment variables

`mini-vllm info` lists those that are set.

| Variable | What it does |
|---|---|
"""


def page() -> str:
    """Return the page: a table for each heading in `mini-vllm --help`, and one for `mini-vllm bench`."""
    groups = {
        heading: [(name, f"mini_vllm_labs.cli.{target}") for name, target, _ in COMMANDS[heading]]
        for heading in COMMANDS
    }
    groups["Benchmarks"] = [(f"bench {name}", f"mini_vllm_labs.cli.bench.{target}") for name, target, _ in BENCHMARKS]
    variables = "".join(f"| `{one.name}` | {one.about} |\n" for one in VARIABLES)
    return (
        HEAD
        + "".join("\n".join(_table(heading, rows)) for heading, rows in groups.items())
        + VARIABLES_HEAD
        + variables
    )


def _table(heading: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    yield from ("", f"## {heading}", "", "| Command | What it does | Options |", "|---|---|---|")
    for name, target in rows:
        command = load(name, target)
        says = " ".join((command.help or "").split()).replace("|", "\\|")
        yield f"| `{' '.join(('mini-vllm', name, *_arguments(command)))}` | {says} | {', '.join(_options(command))} |"
    yield ""


def _arguments(command: Any) -> Iterator[str]:
    for one in command.params:
        if one.param_type_name == "argument":
            name = (one.metavar or one.name or "").upper().strip("[].") + "..." * (one.nargs == -1)
            yield name if one.required else f"[{name}]"


def _options(command: Any) -> Iterator[str]:
    """Yield each option's longest name."""
    for one in command.params:
        if one.param_type_name == "option" and one.name != "help" and not one.hidden:
            yield f"`{max(one.opts, key=len)}`"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
