"""The knobs of the contest, and the memory of those already held."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from course.simulator.policies import PREDICTION_SIGMA
from course.simulator.served import Slo
from course.simulator.workloads import WORKLOADS
from course.views.knobs import Choice, Slide
from course.views.picture import Picture
from course.views.policy_bench.contest import Contest, Outcome, hold_contest
from course.views.policy_bench.drawing import policy_picture
from course.views.show import panel
from mini_vllm.engine.errors import StalledError
from mini_vllm.seams.lineup import lineup_from_env

if TYPE_CHECKING:
    from course.views.widgets import Panel

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
