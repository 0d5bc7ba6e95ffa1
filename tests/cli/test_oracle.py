"""`mini-vllm oracle`: exit codes and output."""

from importlib import import_module

import pytest

from labs.phase5_chunked_prefill import starter
from mini_vllm.assembly.lineup import CHECKOUT
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy
from tests.cli.conftest import Commands

SOLUTIONS = CHECKOUT / "solutions"
PHASES = sorted(path.stem for name in ("[1-5]", "[78]", "11") for path in SOLUTIONS.glob(f"phase{name}_*.py"))


class NoThreshold(ChunkedPrefillPolicy):
    def __init__(self, clamp: object, threshold: int, *rest: object) -> None:
        super().__init__(clamp, 0, *rest)  # type: ignore[arg-type]


def test_a_difference_names_step_phase_and_command(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "ChunkedPrefillPolicy", NoThreshold)
    shown = mini_vllm("oracle", "--phase", "5", exit_code=1).output
    assert "seed 0: the first difference is in step 0" in shown
    assert "phase 5 in place of yours the difference disappears" in shown
    assert "mini-vllm oracle --phase 5 --seed 0" in shown


def test_an_unwritten_phase_is_named(mini_vllm: Commands) -> None:
    shown = mini_vllm("oracle", "--phase", "2-3", exit_code=1).output
    assert "nothing can be compared yet: Phase 2, task 3" in shown
    assert "--lineup" not in shown


def test_a_phase_that_decides_nothing_here_is_not_called_compared(mini_vllm: Commands) -> None:
    assert "compared: phases 3, 4, 5 and 7;" in mini_vllm("oracle", "--phase", "3-7", exit_code=1).output


def test_an_unwritten_elective_is_named(mini_vllm: Commands) -> None:
    assert "Phases to finish: 7" in mini_vllm("oracle", "--phase", "7", exit_code=1).output


@pytest.mark.parametrize(
    ("phases", "seed"), [("4", 3), ("3-4", 3), ("4-5", 3), ("2", 3), ("1-5", 3), ("3-7", 41), ("8", 42), ("1-11", 81)]
)
def test_the_other_phases_are_the_references(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, phases: str, seed: int
) -> None:
    for phase in PHASES:
        theirs, given = import_module(f"labs.{phase}.starter"), import_module(f"solutions.{phase}")
        for name in vars(given).keys() & vars(theirs).keys():
            monkeypatch.setattr(theirs, name, getattr(given, name))
    assert "The same decisions in every step" in mini_vllm("oracle", "--phase", phases, "--seed", str(seed)).output


def test_an_engine_that_raises_at_once_is_one_message(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "ChunkedPrefillPolicy", lambda *_: dict[str, int]()["x"])
    shown = mini_vllm("oracle", "--phase", "5", exit_code=1).output
    assert shown.count("nothing can be compared") == 1
    assert "KeyError" in shown
