"""The new process of `fresh.py`."""

import sys
from pathlib import Path

from mini_vllm.notebook.fresh import answer_order

answer_order(Path(sys.argv[1]), Path(sys.argv[2]))
