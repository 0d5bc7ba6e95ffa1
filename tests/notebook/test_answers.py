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
            "step 63 of 103",
            "so D is preempted",
            "blocks of A: 1 2 9 12 15 5",
            "given back: D( \\d+){5}",
        ],
        "request_bars(run)": ["output tokens: 98 \\(A\\), .* 84 \\(D\\)", "preemptions: 0 \\(A\\), .* 1 \\(D\\)"],
        "# The first setting": [
            "steps: 28 .* 50 \\(12 blocks\\), .* 55 \\(budget 4\\), 79 \\(1 at once\\), 31 \\(by priority\\)",
            "computed: 210 \\(first\\), 190 \\(40 blocks\\), .* 252 \\(no prefix caching\\)",
            "preempted: 2 \\(first\\), 0 \\(40 blocks\\), 8 \\(12 blocks\\), 4 \\(no prefix caching\\)",
            "again: 20 \\(first\\)",
            "from the cache: 28 \\(first\\)",
        ],
        "workload =": ["step 6 of 27", "so r3 is preempted"],
    },
    "08_spot_the_bug": {
        "deck(lab": ["1\\. All work is lost: A preempted request(?s:.*)21\\. One launch"],
        "arrivals, config": ["step 20 of", "B is resumed and computes all of its 25 tokens"],
    },
    "07_tuning": {
        "dial.reveal(chunking_dial": ["token p99: 481 ms", "latency p99: 57.5 ms", "output tokens per second: 5,320"],
        "memory.reveal(calculator": ["per token: 128 KiB", "2.00 MiB", "28,181", "8,192 tokens: 55", "batch: 295"],
        "dial.also(": [
            "ITL, p99: .* 16.3 ms \\(budget 512\\), 158 ms \\(budget 8,192\\), .* 54.9 ms \\(max_num_seqs 64\\)",
            "TTFT, p99: .* 595 ms \\(budget 512\\), 525 ms \\(budget 8,192\\), .* 8.75 s \\(max_num_seqs 64\\)",
            "output tokens per second: 5,320 \\(first\\), .* 4,763 \\(max_num_seqs 64\\)",
        ],
        "memory.also(": [
            "run: 55 .* 61 \\(utilization 0.98\\), 23 ",
            "fit: .* 880 \\(contexts of 512",
            "batch: .* 206 \\(H200",
        ],
        "by_pool =": [
            "TTFT, median: 21.2 s \\(1,000 blocks\\), .* 163 ms \\(8,000 blocks\\)",
            "most at once: 8 \\(1,000 blocks\\), .* 31 \\(8,000 blocks\\)",
            "tokens computed: 1,430,774 \\(1,000 blocks\\), .* 1,424,673 \\(8,000 blocks\\)",
        ],
        "by_cache =": [
            "median: 14.1 ms \\(11/s \\+ cache\\), 110 ms \\(11/s\\), 28.9 ms \\(22/s \\+ cache\\), 2.53 s",
            "tokens computed: 298,042 \\(11/s \\+ cache\\), 877,626 \\(11/s\\)",
            "prompt tokens hit: 69% \\(11/s \\+ cache\\)",
            "median: .* (.*) \\(documents \\+ cache\\), \\1 \\(documents\\)",
        ],
        "names =": ["steps: 640 \\(1 seat\\), 160 \\(4 seats\\), 40 \\(16 seats\\)", "The same texts."],
    },
    "09_policies": {
        "def three": [
            "FCFS(?s:.*)B: .*first token in step 12, .*\nC: .* token in step 14, done in step 17\n.* 8.7 on average",
            "PRIORITY\nA: .*first token in step 4, .*\nB: .*first token in step 16, done in step 17\n.*\n.* 6.7 on ",
            "shortest first\nA: .* token in step 6, .*\nB: .* step 0, .*\nC: .* token in step 2, .*\n.* 2.7 on ",
        ],
        "three_hundred.reveal(bench": [
            "p50 first token: FCFS 8.14 s, .* shortest-first 214 ms",
            "p95 first token: FCFS 13.5 s, .* shortest-first 30.8 s",
            "urgent requests: .* PRIORITY 516 ms",
        ],
        "tried =": [
            "FCFS: SLO of 1 s kept: 8% \\(first\\), 100% \\(load 80 %\\), .* 100% \\(chat\\)",
            "shortest-first: SLO of 1 s kept: 68% \\(first\\), 99% \\(load 80 %\\), 63% \\(error 2\\), 100% \\(chat\\)",
            "FCFS: SLO of 10 s kept: 66% ",
            "PRIORITY: SLO of 1 s kept: 24% (?s:.*)PRIORITY: SLO of 10 s kept: 63% ",
            "shortest-first: SLO of 10 s kept: 79% ",
        ],
        "urgent =": ["N: arrives in step 1, waits 19 steps, first token in step 20", "N waits longest: 19 steps"],
        "def aged": [
            "PRIORITY(?s:.*)N: .* first token in step 20",
            "your formula(?s:.*)N: .* first token in step 10, (?s:.*)U4: .* first token in step 8, ",
            "your formula(?s:.*)U5: .* waits 4 steps, first token in step 14, ",
        ],
        "tight =": ["FCFS: B needs a block .* B itself is preempted", "PRIORITY: .* so A is preempted"],
        "loads =": [
            "FCFS: goodput per second: 4.39 \\(load 80 %\\), .* 0.46 \\(load 150 %\\)",
            "FCFS: output tokens per second: 445 \\(load 80 %\\), .* 589 \\(load 150 %\\)",
        ],
        "from course.simulator.experiment": [
            "user 0: TTFT, p95: 11.9 s \\(FCFS\\), 12.2 s \\(by_counter\\)",
            "user 1: TTFT, p95: 11.\\d s \\(FCFS\\), 375 ms \\(by_counter\\)",
            "user 2: TTFT, p95: 11.\\d s \\(FCFS\\), 458 ms \\(by_counter\\)",
            "output tokens per second.* 910",
        ],
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
