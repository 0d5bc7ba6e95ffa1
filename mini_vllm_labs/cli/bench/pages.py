"""`mini-vllm bench pages`: the delay from a move to its picture (in widgets and the live page), and page sizes."""

from collections.abc import Iterator
from typing import Annotated

import typer

from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.cli.bench.measured import run_cases
from mini_vllm_labs.pictures.browser.chromium import headless_chromium
from mini_vllm_labs.pictures.terminal.console import friendly
from mini_vllm_labs.pictures.terminal.options import AsJson
from mini_vllm_labs.pictures.terminal.progress import ProgressReport


@friendly
def bench_pages(
    moves: Annotated[int, typer.Option(min=1, help="Moves of each slider and knob.")] = 15,
    requests: Annotated[int, typer.Option(min=1, help="Simulated requests per change of the dial.")] = 2_000,
    as_json: AsJson = False,
) -> None:
    """Measure the delay from moving a slider or a knob to the new picture.

    A headless Chromium draws the pictures. The final picture follows when a knob stops moving. The byte counts cover a
    widget's code, style and state, or everything that a browser loads for the live page.
    """
    from mini_vllm_labs.bench.pages import measure_pages

    with headless_chromium() as browser:

        def cases(report: ProgressReport) -> Iterator[Case]:
            for case in measure_pages(browser, moves, requests):
                yield case
                report(case.title)

        why = f"Milliseconds, {moves} moves each, without Jupyter. Chromium {browser.version}."
        facts = {"chromium": browser.version, "moves": moves}
        run_cases(cases, seconds=90, as_json=as_json, text="Opening pages", closing=[why], facts=facts)
