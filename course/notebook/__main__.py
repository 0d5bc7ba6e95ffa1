"""The new process of `fresh.py`."""

import sys
from pathlib import Path

from course.notebook.fresh import answer_order

answer_order(Path(sys.argv[1]), Path(sys.argv[2]))
