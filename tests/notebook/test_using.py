"""The ipywidgets cell in `docs/using.md` runs, and its controls call the engine again."""

import re

import pytest

from mini_vllm.assembly.lineup import CHECKOUT


def test_the_cell_with_interact_runs_and_each_control_changes_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution")
    [cell] = re.findall(
        r"```python\n(from ipywidgets.*?)```", (CHECKOUT / "docs/using.md").read_text("utf-8"), re.DOTALL
    )
    names: dict[str, object] = {}
    exec(cell, names)
    served = names["served"]
    assert callable(served)
    assert [knob.description for knob in served.widget.children[:-1]] == ["seats", "budget", "policy"]  # type: ignore[attr-defined]
    shown = {repr(served(*knobs)) for knobs in ((4, 24, "fcfs"), (1, 24, "fcfs"), (4, 8, "fcfs"), (4, 24, "priority"))}
    assert len(shown) == 4
    assert all("steps: " in each for each in shown)
