"""`mini-vllm one-file`: the reference engine as one readable file."""

from pathlib import Path
from typing import Annotated

import typer

from classroom.one_file.compose import write
from course.terminal.console import friendly, make_console


@friendly
def one_file(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
) -> None:
    """Write the reference engine as one file that runs by itself.

    At most 1,200 lines: phases 1 to 6, and an engine around them.
    """
    path = write(folder)
    num_lines = len(path.read_text(encoding="utf-8").splitlines())
    console = make_console()
    console.print(f"{path}: a vLLM in {num_lines:,} lines", markup=False, soft_wrap=True)
    console.print(f'Try it: python {path} "Once upon a time" "One day, a girl"', markup=False, soft_wrap=True)
