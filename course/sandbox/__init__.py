"""What runs and explains code that is not ours: the only part of `course` that a jail sees."""

import sys

IN_BROWSER = sys.platform == "emscripten"  # no processes and no threads there: see browser.py
