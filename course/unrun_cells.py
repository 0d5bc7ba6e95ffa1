"""What a cell says whose names come from cells that have not run: a restarted kernel has forgotten them all.

It is an extension of IPython, because the cell that fails may be the first that runs.
`notebook/ipython_kernel_config.json` is installed as `etc/ipython/` of the environment and loads it in every kernel.
"""

import traceback
from types import TracebackType

from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Explain a `NameError` of a cell in words. IPython calls this when the kernel starts."""
    shell.set_custom_exc((NameError,), explain)  # type: ignore[no-untyped-call]


def explain(
    shell: InteractiveShell, kind: type[NameError], error: NameError, trace: TracebackType, tb_offset: int | None = None
) -> None:
    """Show what to run first, then Python's traceback; without the words if the name is not one of the notebook's."""
    *_, (frame, _) = traceback.walk_tb(trace)
    if kind is NameError and error.name and frame.f_globals is shell.user_ns:
        words, lines = in_words(error.name), shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset)
        error._render_traceback_ = lambda: [words, *lines]  # type: ignore[attr-defined]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def in_words(name: str) -> str:
    """Return what to do about a name without a value."""
    return (
        f"`{name}` has no value yet: the cell above that makes it has not run since the kernel started (or the name is "
        "misspelt).\nRun all cells above first (in JupyterLab: Run > Run All Above Selected Cell), then this one.\n"
    )
