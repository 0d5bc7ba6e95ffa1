"""A notebook's message about an unwritten or unreadable starter contains a next step that works."""

from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import ALL_NAMES
from mini_vllm_labs.fresh.jobs import WorkloadRun
from mini_vllm_labs.notebook import Lab, Notice
from mini_vllm_labs.runs.workloads.small_workload import make_workload

WORKLOAD = make_workload(1, 4)


def pasted(line: str) -> Lab:
    names: dict[str, object] = {"Lab": Lab}
    exec(line, names)
    lab = names["lab"]
    assert isinstance(lab, Lab)
    return lab


@pytest.mark.parametrize("phase", range(1, len(ALL_NAMES) + 1))
def test_the_line_of_the_hint_can_be_pasted_and_runs(phase: int) -> None:
    line = repr(Lab(phase, "starter")).splitlines()[-1]
    lab = pasted(line)
    assert (lab.code.phase, str(lab.code.whole)) == (phase, "solution" if phase <= 6 else f"solution:1-{phase}")
    assert "not written" not in repr(lab)
    assert isinstance(lab.play(WORKLOAD), WorkloadRun)


def test_the_hint_borrows_only_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mini_vllm_labs.notebook.missing.unwritten_tasks",
        lambda phase: [f"Phase {phase}, task 2: x"] if phase in (3, 4) else [],
    )
    shown = repr(Lab(4, "starter"))
    assert "needs phase 3 (preemption)" in shown
    assert "Next is Phase 3, task 2: x." in shown
    assert "labs/phase3_preemption/starter.py" in shown
    assert shown.endswith('lab = Lab(phase=4, lineup="starter:1-2,solution:3-4,starter:5-6")')


def test_the_line_does_not_break_on_the_page() -> None:
    page = Lab(3, "starter")._repr_mimebundle_()["text/html"]
    line = page[page.rindex("<pre") : page.rindex("</pre>")]
    assert "white-space:pre;" in line
    assert "lab = Lab(phase=3, lineup=&quot;solution&quot;)" in line


def test_a_student_edition_is_not_told_to_borrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm_labs.notebook.missing.solutions_exist", lambda: False)
    shown = repr(Lab(3, "starter"))
    assert "Next is Phase 1, task 1: clamp." in shown
    assert "lineup" not in shown
    assert "solution" not in shown


def test_with_the_reference_there_is_no_notice() -> None:
    assert "not written" not in repr(Lab(6, "solution"))
    assert 'role="note"' not in Lab(6, "solution")._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(
    ("source", "line", "shown"),
    [
        ("deff clamp(a):\n    return a\n", 1, "deff clamp(a):\n     ^^^^^\nSyntaxError: invalid syntax"),
        ("def f():\n    x = (1,\n    return 2\n", 2, "x = (1,\n    ^\nSyntaxError: '(' was never closed"),
        ("def f():\nreturn 2\n", 2, "return 2\n^^^^^^\nIndentationError: expected an indented block"),
        ("a = 1\nb = 'two\n", 2, "b = 'two\n    ^\nSyntaxError: unterminated string literal"),
    ],
)
def test_a_broken_line_is_shown_with_a_caret(
    source: str, line: int, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "starter.py"
    path.write_text(source, encoding="utf-8")
    monkeypatch.setattr("mini_vllm_labs.notebook.missing.starter_path", lambda phase: path)
    notice = Lab(1, "starter").play(WORKLOAD)
    assert isinstance(notice, Notice)
    assert notice.title == f"{path}, line {line}: Python cannot read this line"
    assert notice.text.startswith(shown)
    assert notice.title in repr(Lab(1, "starter"))
    assert "needs phase" not in repr(Lab(1, "starter"))
