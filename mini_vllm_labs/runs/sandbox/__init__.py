"""What runs and explains code that is not ours: with plays and stand-ins the only part that a jail sees."""

import sys

IN_BROWSER = sys.platform == "emscripten"  # no processes and no threads there: see browser.py
