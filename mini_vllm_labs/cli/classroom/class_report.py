"""`mini-vllm class-report`: shows where the learners in a class stop."""

from pathlib import Path
from typing import Annotated

import typer

from mini_vllm_labs.classroom.class_report.learners import read_class
from mini_vllm_labs.classroom.class_report.page import as_html, pictures, to_improve
from mini_vllm_labs.classroom.judge.report import require_writable, write_whole
from mini_vllm_labs.pictures.terminal.console import friendly, make_console


@friendly
def class_report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder or zip per learner.", show_default=False)],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the page with pictures.")] = None,
    names: Annotated[bool, typer.Option("--names", help="Add a table of the learners to the page.")] = False,
) -> None:
    """Show where the learners in a class stop.

    The command reads each history.jsonl, and shows attempts, minutes, broken rules, missed predictions and the texts to
    improve first.
    """
    require_writable([html])
    learners = read_class(folder)
    console = make_console()
    console.print(f"{len(learners)} learners with a history", markup=False)
    for picture in pictures(learners):
        console.print(picture.text_alternative, markup=False, soft_wrap=True)
    console.print("\n".join(["Improve first:", *to_improve(learners)]), markup=False, soft_wrap=True)
    if html is not None:
        write_whole(html, as_html(learners, names=names))
