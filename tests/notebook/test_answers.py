"""The folded answers of the notebooks match the output of their cells; no cell ends in an error or a notice."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.notebook.files import read

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MISSING = re.compile(r"This needs |The engine did not finish")
ONE_WAY = {  # what a learner writes in cells that ask for it
    "09_policies": {
        "priority=request.priority)  # change this": "priority=request.arrival_time + 8 * request.priority)",
        "priority = 0  # change this": "priority = asked_for[user]",
        "+= 0  # and this": "+= request.num_prompt_tokens + 2 * request.num_output_tokens",
    },
}
EXPECTED = {
    "00_tour": {
        "questions =": ["capital of Norway is Oslo", "went home"],
        "full_pool.reveal(watch(run": [
            "step 63 of 114",
            "so D is preempted",
            "blocks of A: 1 2 9 12 15 5",
            "given back: D( \\d+){5}",
        ],
        "for answer in run": ["request 0: 86 tokens, 0 preemptions, 0 ", "request 3: 92 tokens, 1 preemptions"],
        "workload =": ["step 6 of 27", "so r3 is preempted"],
    },
    "08_spot_the_bug": {
        "deck(lab": ["1\\. All work is lost: A preempted request(?s:.*)21\\. One launch"],
        "arrivals, config": ["step 20 of", "B is resumed and computes its 25 tokens again"],
    },
    "07_tuning": {
        "dial.reveal(chunking_dial": ["token p99: 481 ms", "latency p99: 57.5 ms", "output tokens per second: 5,320"],
        "memory.reveal(calculator": ["per token: 128 KiB", "2.00 MiB", "28,181", "8,192 tokens: 55", "batch: 295"],
        "documents =": [
            "1,000 blocks  TTFT 21.232 .* at once   8 .* 1,431 k",
            "8,000 blocks  TTFT  0.163 .* at once  31 .* 1,425 k",
        ],
        "by_cache =": [
            "11/s, cache .* 0.014 .* 298 k  hits 69%",
            "11/s  .* 0.110 .* 878 k",
            "22/s, cache .* 0.029 s",
            "22/s  .* 2.528 s",
            "6/s, cache +(TTFT.*)\\ndocuments 6/s +\\1",
        ],
        "names =": [" 1 seats: 640 steps", "4 seats: 160", "16 seats:  40", "same texts: True"],
    },
    "09_policies": {
        "def three": [
            "FCFS(?s:.*)step 12 .* B:4p(?s:.*)step 14 .* C:4p(?s:.*)step 17 .* C done",
            "PRIORITY(?s:.*)step 0 .* C:4p(?s:.*)step 4 .* A:4p(?s:.*)step 16 .* B:4p(?s:.*)step 17 .* B done",
            "shortest(?s:.*)step 0 .* B:4p(?s:.*)step 2 .* C:4p(?s:.*)step 6 .* A:4p(?s:.*)step 17 .* A done",
        ],
        "three_hundred.reveal(bench": [
            "p50 first token: FCFS 8.14 s, .* shortest-first 214 ms",
            "p95 first token: FCFS 13.5 s, .* shortest-first 30.8 s",
            "urgent requests: .* PRIORITY 516 ms",
        ],
        "urgent =": ["step 20 .* N:4p"],
        "def aged": ["step 8 .* U4:4p(?s:.*)step 10 .* N:4p(?s:.*)step 14 .* U5:4p"],
        "tight =": ["FCFS: B needs a block .* B itself is preempted", "PRIORITY: .* so A is preempted"],
        "from course.simulator.served": ["80 %  fcfs 4.39 .* 445 tokens", "150 %  fcfs 0.46 .* 589 tokens"],
        "from course.simulator.experiment": ["user 0: .*p95 12.20", "user 1: .* 0.41", "user 2: .* 0.51", "910"],
    },
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_answers_match_the_output_of_the_cells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution")
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOKS.parent))
    notebook = read(NOTEBOOKS / f"{name}.ipynb")
    for cell in notebook.cells:
        for asked, written in ONE_WAY.get(name, {}).items():
            cell.source = cell.source.replace(asked, written)
    NotebookClient(notebook, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    shown = dict(outputs(notebook))
    assert {source.partition("\n")[0]: text for source, text in shown.items() if MISSING.search(text)} == {}
    for begins, patterns in EXPECTED[name].items():
        texts = [text for source, text in shown.items() if source.startswith(begins)]
        assert len(texts) == 1, begins
        for pattern in patterns:
            assert re.search(pattern, texts[0]), f"{begins}: no {pattern!r} in\n{texts[0]}"


def outputs(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield for each code cell its source and its output as text."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield (
                cell.source,
                "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs),
            )
