"""The knobs of the contest, and the memory of those already held."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mini_vllm.engine import StalledError
from mini_vllm.lineup import lineup_from_env
from mini_vllm.simulator.policies import PREDICTION_SIGMA
from mini_vllm.simulator.served import Slo
from mini_vllm.simulator.workloads import WORKLOADS
from mini_vllm.views.knobs import Choice, Slide
from mini_vllm.views.picture import Picture
from mini_vllm.views.policy_bench.contest import Contest, Outcome, hold_contest
from mini_vllm.views.policy_bench.drawing import policy_picture
from mini_vllm.views.show import panel

if TYPE_CHECKING:
    from mini_vllm.views.widgets import Panel

KNOBS = (
    Choice("workload", "workload", "shared-prefix", tuple(WORKLOADS)),
    Slide("load", "load", 150, 50, 200, 10, "%"),
    Slide("num_gpu_blocks", "num_gpu_blocks", 800, 800, 4000, 200, "blocks"),
    Slide("prediction_sigma", "error of predicted lengths (0: a prophet)", PREDICTION_SIGMA, 0, 2, 0.1),
    Slide("time_to_first_token", "SLO: first token within", 1, 0.1, 10, 0.1, "s"),
    Slide("inter_token_latency", "SLO: then from token to token", 50, 5, 100, 5, "ms"),
)
MOST_REMEMBERED = 64


def hold_with_this_lineup(contest: Contest) -> list[Outcome]:
    """Hold a contest with the engine that `LAB_IMPL` says. Raises `ValueError` if it gets stuck."""
    try:
        return hold_contest(contest, lineup_from_env())
    except StalledError as error:
        raise ValueError(str(error)) from error


def policy_bench(hold: Callable[[Contest], list[Outcome]] = hold_with_this_lineup) -> "Panel":
    """Return knobs over three policies. `hold` serves a contest; another objective asks for no new one.

    A notebook gives a `hold` that runs `hold_contest` in a new process, so that what was just saved is what runs.
    A `ValueError` of `hold` is shown to the reader in words.
    """
    held = lru_cache(MOST_REMEMBERED)(hold)

    def draw(time_to_first_token: float, inter_token_latency: float, **values: Any) -> Picture:
        contest = Contest(**values)
        return policy_picture(contest, held(contest), Slo(time_to_first_token, inter_token_latency / 1e3))

    return panel(KNOBS, draw)
