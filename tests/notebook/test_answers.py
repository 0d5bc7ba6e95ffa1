"""The folded answers of the notebooks are what their cells say, and no cell ends in an error or a notice."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MISSING = re.compile(r"This needs |The engine did not get through")
SAID = {
    "08_spot_the_bug": {
        "pair =": ["B PREEMPTED for A", "step 20 .* B:13p\\+12hit"],
        "urgent =": ["step 3 of 11", "waiting: C"],
        "equals =": ["step 1 .* B PREEMPTED for itself"],
        "front =": ["step 10 .* C:16p", "step 20 .* B:25p"],
        "tiny =": ["step 9 .*5 free  A:1 \\| B PREEMPTED", "step 10 .* C:4p"],
        "by_priority =": ["step 0 .* A:16p", "step 3 .* B:16p"],
        "order =": ["step 1 .* A:4p B:1 C:4p"],
        "crowd = [ask(name": ["the same steps: True", "waiting: C D E"],
        "def blocks_taken": ["\\(0, 1\\), .*\\(80, 6\\), \\(96, 7\\)\\]"],
        "block_size, num_blocks": ["all: 16,000", "fit: 625, too many: 375", "step 0 .* 4 free .* r5:247p\n"],
        "together =": ["A:20p B:4p\\+16hit"],
        "again =": ["B:4p\\+12hit", "C:2p\\+16hit"],
        "shared =": ["B:5p\\+16hit"],
        "freed =": ["blocks of B: 4 3"],
        "tell(lab.play([ask": ["A:12p\n(.*A:12p\n){2}.*A:4p"],
        "mixed =": ["same steps: True", "step 3 .* A:12p B:4p", "step 3 .* B done", "step 7 .* A:4p"],
        "from mini_vllm.simulator.experiment": [
            "256: TTFT p50 217 ms, p95 840 .* 9 ms",
            "161 .* 524 .* 60",
            "p95 618 ms",
        ],
        "from mini_vllm.simulator.gpus": ["H100 .*295", "H200 .*206"],
        "roomy =": ["Both requests said the same"],
        "from collections": ["matrix products: 29"],
    },
}


@pytest.mark.parametrize("name", SAID)
def test_the_answers_are_what_the_cells_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution")
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOKS.parent))
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    said = dict(outputs(notebook))
    assert {source.partition("\n")[0]: text for source, text in said.items() if MISSING.search(text)} == {}
    for begins, patterns in SAID[name].items():
        texts = [text for source, text in said.items() if source.startswith(begins)]
        assert len(texts) == 1, begins
        for pattern in patterns:
            assert re.search(pattern, texts[0]), f"{begins}: no {pattern!r} in\n{texts[0]}"


def outputs(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield for each code cell its source, and what it printed and showed as text."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield (
                cell.source,
                "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs),
            )
