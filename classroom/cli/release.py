"""`mini-vllm release`: write the student edition."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from classroom.release import compose, untracked_code, write
from course.terminal.console import fail, friendly, make_console


@friendly
def release(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
) -> None:
    """For teachers: write the student edition, without solutions, the tests of them, and history.

    Starters go out as they are here, and only if they are not filled in.
    """
    if strangers := untracked_code():
        fail(f"git does not know {', '.join(strangers)}: commit what belongs to the course, remove what does not", 2)
    edition = compose()
    write(edition, folder)
    console = make_console()
    size = sum(map(len, edition.values())) / 1e6
    console.print(f"{len(edition)} files, {size:.1f} MB, in {folder}:", markup=False, soft_wrap=True)
    counts = Counter(path.partition("/")[0] + "/" if "/" in path else path for path in edition)
    parts = [f"{name} ({count})" if name.endswith("/") else name for name, count in sorted(counts.items())]
    console.print(", ".join(parts), markup=False)
    console.print(f"Try it as a learner would: cd {folder} && make demo", markup=False, soft_wrap=True)
