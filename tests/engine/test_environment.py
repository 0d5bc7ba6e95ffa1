"""Each environment variable is declared once, with a type, and a wrong value raises an error that names the
variable."""

import re

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.environment import GRADE_FORK, GRADE_SECONDS, NUM_THREADS, VARIABLES, Variable

ASKED = re.compile(r"environ(?:\.get\(|\[)\"([A-Z_]+)\"\]?(?! =)")
OF_OTHERS = {
    "CUDA_VISIBLE_DEVICES",
    "PYTHONPATH",
    "PATH",
    "TRITON_INTERPRET",
    "SCHEDULER",
}  # variables set for a different program, or read from one


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        (GRADE_SECONDS, "", 5.0),
        (GRADE_SECONDS, "0.5", 0.5),
        (GRADE_FORK, "0", False),
        (GRADE_FORK, "1", True),
        (NUM_THREADS, "2", 2),
        (NUM_THREADS, "4,2", 4),
        (GRADE_SECONDS, "nan", None),
        (GRADE_SECONDS, "-1", None),
        (NUM_THREADS, "0", None),
        (NUM_THREADS, "two", None),
    ],
)
def test_a_value_has_its_type_or_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, variable: Variable[object], text: str, value: object
) -> None:
    monkeypatch.setenv(variable.name, text)
    if value is not None:
        assert variable.get() == value
        return
    with pytest.raises(ValueError, match=f"{variable.name}: .*; got '{re.escape(text)}'"):
        variable.get()


def test_no_other_module_reads_a_variable_by_its_name() -> None:
    paths = [*(CHECKOUT / "mini_vllm").rglob("*.py"), *(CHECKOUT / "mini_vllm_labs").rglob("*.py")]
    asked = {name for path in paths for name in ASKED.findall(path.read_text(encoding="utf-8"))}
    assert asked, "the search finds nothing any more"
    assert asked - OF_OTHERS == set()
    assert len({variable.name for variable in VARIABLES}) == len(VARIABLES)
