"""Hashes as another Python process computes them: one with another seed of `hash`."""

import os
import runpy
import subprocess
import sys

from course.sandbox import IN_BROWSER
from mini_vllm.assembly.lineup import CHECKOUT

SEED = "4711"
# A browser has no other process: there the file is run once more, with other values for what a restart changes.
AFTER_A_RESTART = {"hash": lambda value: hash((value, SEED)), "id": lambda value: id(value) + int(SEED)}


def hashes_elsewhere(file: str, calls: str) -> tuple[list[str], str]:
    """Return the digests, as text, of an expression that calls the file's `hash_block` as `f`, and what went wrong."""
    if IN_BROWSER:
        function = runpy.run_path(file, init_globals=dict(AFTER_A_RESTART))["hash_block"]
        return [digest.hex() for digest in eval(calls, {"f": function})], ""
    source = f"f = runpy.run_path({file!r})['hash_block']"
    script = f"import runpy; {source}; print(*[d.hex() for d in {calls}])"
    environment = {**os.environ, "PYTHONHASHSEED": SEED, "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout.split(), done.stderr[-300:]
