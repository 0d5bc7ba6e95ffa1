"""`mini-vllm oracle`: exit codes and what it says."""

import pytest

from labs.phase5_chunked_prefill import starter
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy
from tests.cli.conftest import Commands


class NoThreshold(ChunkedPrefillPolicy):
    """Forgets the threshold."""

    def __init__(self, clamp: object, threshold: int, *rest: object) -> None:
        super().__init__(clamp, 0, *rest)  # type: ignore[arg-type]


def test_the_same_decisions(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "ChunkedPrefillPolicy", ChunkedPrefillPolicy)
    shown = mini_vllm("oracle", "--phase", "5", "--seed", "3").output
    assert "The same decisions in every step" in shown


def test_a_difference_names_step_phase_and_command(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "ChunkedPrefillPolicy", NoThreshold)
    shown = mini_vllm("oracle", "--phase", "5", exit_code=1).output
    assert "seed 0: the first difference is in step 0" in shown
    assert "phase 5 in place of yours the difference disappears" in shown
    assert "mini-vllm oracle --phase 5 --seed 0" in shown


def test_an_unwritten_phase_is_named(mini_vllm: Commands) -> None:
    assert "Phase 2, task 3" in mini_vllm("oracle", "--phase", "2-3", exit_code=1).output


@pytest.mark.parametrize("phases", ["6", "1-6", "0", "x"])
def test_a_phase_that_it_cannot_compare_is_refused(mini_vllm: Commands, phases: str) -> None:
    assert "phase" in mini_vllm("oracle", "--phase", phases, exit_code=2).output.lower()
