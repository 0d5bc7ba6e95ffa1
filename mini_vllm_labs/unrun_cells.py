"""An IPython extension that explains a missing name if its cell has not run since the kernel started.

`notebook/ipython_kernel_config.json`, installed in the environment's `etc/ipython/`, loads the extension in every
kernel, because the first cell to run may be the cell that fails.
"""

import traceback
from types import TracebackType

from IPython.core.interactiveshell import InteractiveShell

WORDS = """`{}` has no value yet: the cell above that makes it has not run since the kernel started (or it is misspelt).
Run all cells above first (in JupyterLab: Run > Run All Above Selected Cell), then this one.
"""


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Explain a `NameError` raised by a cell. IPython calls this when the kernel starts."""
    shell.set_custom_exc((NameError,), explain)  # type: ignore[no-untyped-call]


def explain(
    shell: InteractiveShell, kind: type[NameError], error: NameError, trace: TracebackType, tb_offset: int | None = None
) -> None:
    """Show which cell to run first, then the traceback, or only the traceback if the notebook never defines the
    name."""
    *_, (frame, _) = traceback.walk_tb(trace)
    if kind is NameError and error.name and frame.f_globals is shell.user_ns:
        words, lines = WORDS.format(error.name), shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset)
        error._render_traceback_ = lambda: [words, *lines]  # type: ignore[attr-defined]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
