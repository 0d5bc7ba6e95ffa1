"""`mini-vllm lab` opens the notebooks of this folder in JupyterLab."""

import subprocess
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.installation import install_command
from mini_vllm_labs.pictures.terminal.console import fail, friendly

CONTEXT = {"ignore_unknown_options": True}
OPTIONS = (
    *("--ServerApp.root_dir=.", "--LabApp.default_url=/lab/tree/notebooks"),
    *("--HTMLExporter.template_name=page", "--HTMLExporter.extra_template_basedirs=notebooks"),
)


@friendly
def lab(
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of JupyterLab, such as --no-browser.", show_default=False)
    ] = None,
) -> None:
    """Open the notebooks in JupyterLab."""
    if find_spec("jupyterlab") is None:
        fail(f"there is no JupyterLab: {install_command()}", 1)
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, *(options or [])]
    raise typer.Exit(subprocess.call(command, cwd=CHECKOUT))
