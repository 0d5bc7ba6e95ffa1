"""`mini-vllm release` writes the student edition; `one-file` writes the reference as one file."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from mini_vllm.installation import CPU_INDEX
from mini_vllm_labs.classroom.one_file.compose import write as write_one_file
from mini_vllm_labs.classroom.student_edition.edition import compose, require_tracked_code, write
from mini_vllm_labs.classroom.student_edition.wheel import build
from mini_vllm_labs.pictures.terminal.console import friendly, make_console


@friendly
def release(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new or an empty folder; for a wheel, any folder.", show_default=False),
    ],
    wheel: Annotated[
        bool, typer.Option("--wheel", help="Write it as a package that a learner installs with pip.")
    ] = False,
) -> None:
    """Write the student edition.

    The edition omits the solutions, their tests, and the history.

    Starters are copied unchanged, and must not have been filled in.
    """
    require_tracked_code()
    edition = compose()
    console = make_console()
    if wheel:
        built = build(edition, folder)
        console.print(f"{built}: {built.stat().st_size / 1e6:.1f} MB", markup=False, soft_wrap=True)
        index = f"--extra-index-url {CPU_INDEX} "
        for where, option in (("", ""), (", on Linux without an NVIDIA GPU", index)):
            words = f'A learner types{where}: pip install {option}"{built.name}[tested]"'
            console.print(words, markup=False, soft_wrap=True)
        console.print("and then: mini-vllm start my-labs", markup=False)
        return
    write(edition, folder)
    size = sum(map(len, edition.values())) / 1e6
    console.print(f"{len(edition)} files, {size:.1f} MB, in {folder}:", markup=False, soft_wrap=True)
    counts = Counter(path.partition("/")[0] + "/" if "/" in path else path for path in edition)
    parts = [f"{name} ({count})" if name.endswith("/") else name for name, count in sorted(counts.items())]
    console.print(", ".join(parts), markup=False)
    console.print(f"Try it as a learner would: cd {folder} && python lab.py demo", markup=False, soft_wrap=True)


@friendly
def one_file(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
) -> None:
    """Write the reference engine as one file that runs on its own.

    The file has at most 1,200 lines: phases 1 to 6, and an engine around them.
    """
    path = write_one_file(folder)
    num_lines = len(path.read_text(encoding="utf-8").splitlines())
    console = make_console()
    console.print(f"{path}: a vLLM in {num_lines:,} lines", markup=False, soft_wrap=True)
    console.print(f'Try it: python {path} "Once upon a time" "One day, a girl"', markup=False, soft_wrap=True)
