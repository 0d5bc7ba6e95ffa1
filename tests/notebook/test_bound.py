"""The end of notebook 07: what limited performance under a load, and a second run with one setting changed."""

from dataclasses import replace

import pytest

from mini_vllm import parse_lineup
from mini_vllm_labs.notebook import Lab, Notice, bound_bars
from mini_vllm_labs.notebook.bound import BoundRun, run_twice

LINEUP = replace(parse_lineup("solution:1-5"), runner="absent")


@pytest.mark.parametrize(
    ("load", "settings", "mark", "moved"),
    [
        (("chat", 20.0, 150), {"max_num_seqs": "16"}, "seats", "max_num_seqs 32"),
        (("documents", 6.0, 40), {"num_gpu_blocks": "1000"}, "blocks", "num_gpu_blocks 2000"),
    ],
)
def test_the_main_reason_names_the_setting_and_the_second_run_moves_its_share(
    load: tuple[str, float, int], settings: dict[str, str], mark: str, moved: str
) -> None:
    found = run_twice(*load, settings, LINEUP)
    assert [name for name, *_ in found] == ["as it is", moved]
    first, second = (BoundRun(summary, waited, load[2]) for _, summary, waited in found)
    shares = {one: first.share(one) for one in ("seats", "tokens", "blocks")}
    assert max(shares, key=shares.__getitem__) == mark
    assert second.share(mark) < 0.8 * first.share(mark)
    assert second.share("") > first.share("") > 0
    assert second.summary.time_to_first_token.p99 < first.summary.time_to_first_token.p99

    class Run(Lab):
        def run(self, function: object, *arguments: object, phases: int = 5) -> object:  # type: ignore[override]
            return found

    charts = bound_bars(Run(5, "solution"), *load)
    assert not isinstance(charts, Notice)
    shown = f"waiting: {mark}: {first.share(mark):.0%} (first run), {second.share(mark):.0%} (second run)"
    assert shown in repr(charts)
    assert f"second run, {moved}: requests got no token for " in repr(charts)


def test_without_waits_one_run_suffices() -> None:
    [(name, _, waited)] = run_twice("chat", 1.0, 20, {}, LINEUP)
    assert (name, sum(waited.values())) == ("as it is", 0)
