"""Films a command as an animated SVG, in which each line appears at the time it was printed."""

import os
import subprocess
import time
from collections.abc import Sequence
from html import escape

from mini_vllm.assembly.lineup import CHECKOUT

WIDTH, ROWS = 92, 32
LETTER, LINE, FONT, MARGIN = 8.43, 18, 14, 12
READING, LONGEST_WAIT, LAST = 0.2, 1.5, 5.0
"""Seconds: between two lines at least the first and at most the second; the last screen stays for the third."""
Printed = Sequence[tuple[float, str]]


def filmed(arguments: Sequence[str]) -> str:
    """Run `mini-vllm` and return its film. Raises a `RuntimeError` with the last line of output if the command
    fails."""
    command = [str(CHECKOUT / ".venv" / "bin" / "mini-vllm"), *arguments]
    variables = os.environ | {"COLUMNS": str(WIDTH), "PYTHONUNBUFFERED": "1"}
    printed, last = [(0.0, f"$ mini-vllm {' '.join(arguments)}")], time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables, cwd=CHECKOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            now = time.monotonic()
            printed.append((printed[-1][0] + max(READING, min(LONGEST_WAIT, now - last)), line.rstrip()))
            last = now
    if process.returncode:
        raise RuntimeError(f"mini-vllm {arguments[0]}: {printed[-1][1]}")
    return film(folded(printed))


def folded(printed: Printed) -> Printed:
    """Return the lines, with long lines wrapped as in a terminal."""
    return [(at, line[start : start + WIDTH]) for at, line in printed for start in range(0, len(line) or 1, WIDTH)]


def film(printed: Printed) -> str:
    """Return timed lines as an SVG that scrolls; if motion is off, it shows the last screen."""
    length, high = printed[-1][0] + LAST, ROWS * LINE + 2 * MARGIN
    shifts = {at: (ROWS - place) * LINE for place, (at, _) in enumerate(printed, start=1)}
    moments = "".join(f"{100 * at / length:.2f}% {{transform:translateY({y}px)}}" for at, y in shifts.items())
    end = (ROWS - len(printed)) * LINE
    lines = "".join(
        f'<text x="{MARGIN}" y="{MARGIN + (place + 0.75) * LINE:g}">{escape(line)}</text>'
        for place, (_, line) in enumerate(printed)
        if line
    )
    wide = round(WIDTH * LETTER + 2 * MARGIN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"><style>'
        f"text{{font:{FONT}px ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace;fill:#e6e6e6;white-space:pre}}"
        f"g{{transform:translateY({end}px)}}@keyframes film{{{moments}100%{{transform:translateY({end}px)}}}}"
        f"@media (prefers-reduced-motion:no-preference){{.film{{animation:film {length:.1f}s steps(1) infinite}}}}"
        f'</style><clipPath id="screen"><rect y="{MARGIN}" width="{wide}" height="{high - 2 * MARGIN}"/></clipPath>'
        f'<rect width="{wide}" height="{high}" rx="8" fill="#1e1e1e"/>'
        f'<g clip-path="url(#screen)" style="transform:none"><g class="film">{lines}</g></g></svg>\n'
    )
