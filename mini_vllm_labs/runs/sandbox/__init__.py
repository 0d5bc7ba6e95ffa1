"""Runs and explains other people's code. A jail contains only this package, the plays and the stand-ins."""

import sys

IN_BROWSER = sys.platform == "emscripten"  # a browser has neither processes nor threads: see browser.py
