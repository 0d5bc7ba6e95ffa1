"""Configures IPython for the kernel "mini-vLLM Labs", which runs the course whose folder contains the notebook.

The file is installed next to `kernel.json`, in the environment's `share/jupyter/kernels/mini-vllm-labs/`, so that only
this kernel reads it. Outside a course folder, this file changes nothing.
"""

import os
import sys
from pathlib import Path

EXTENSION = Path("mini_vllm_labs", "unrun_cells.py")
here = Path.cwd()
for folder in (here, *here.parents):
    if (folder / EXTENSION).is_file():
        sys.path.insert(0, str(folder))
        given = os.environ.get("PYTHONPATH")
        # inherited by the kernel's subprocesses
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), given]))
        get_config().IPKernelApp.extensions.append("mini_vllm_labs.unrun_cells")  # type: ignore[name-defined]  # noqa: F821
        break
