"""The knobs of the comparison, a cache of comparisons already made, and fewer requests while a knob moves."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from course.simulator.policies import PREDICTION_SIGMA
from course.simulator.served import Slo
from course.simulator.workloads import WORKLOADS
from course.views.knobs import Choice, Slide
from course.views.picture import WIDTH, Picture
from course.views.policy_comparison.comparison import PolicyComparison, PolicyResult, compare_policies
from course.views.policy_comparison.drawing import policy_picture
from course.views.show import panel
from mini_vllm.assembly.lineup import lineup_from_env
from mini_vllm.engine.errors import StalledError

if TYPE_CHECKING:
    from course.views.panels import Panel

KNOBS = (
    Choice("workload", "workload", "shared-prefix", tuple(WORKLOADS)),
    Slide("load", "load", 150, 50, 200, 10, "%"),
    Slide("num_gpu_blocks", "num_gpu_blocks", 800, 800, 4000, 200, "blocks"),
    Slide("prediction_sigma", "error of predicted lengths", PREDICTION_SIGMA, 0, 2, 0.1, at_zero="perfect"),
    Slide("time_to_first_token", "SLO: first token within", 1, 0.1, 10, 0.1, "s"),
    Slide("inter_token_latency", "SLO: next tokens within", 50, 5, 100, 5, "ms"),
)
MAX_REMEMBERED = 64
FEW_REQUESTS = 16
SLO_KNOBS = ("time_to_first_token", "inter_token_latency")


def compare_with_this_lineup(comparison: PolicyComparison) -> list[PolicyResult]:
    """Compare with the lineup of `LAB_IMPL`. Raises `ValueError` if its engine stalls."""
    try:
        return compare_policies(comparison, lineup_from_env())
    except StalledError as error:
        raise ValueError(str(error)) from error


def policy_panel(compare: Callable[[PolicyComparison], list[PolicyResult]] = compare_with_this_lineup) -> "Panel":
    """Return knobs over three policies. `compare` serves the requests; another objective does not call it again.

    A notebook passes a `compare` that runs in a new process, so that the code just saved is the code that runs.
    A `ValueError` of `compare` is shown to the reader. While a knob of the workload moves, it gets 16 requests.
    """
    known: dict[PolicyComparison, list[PolicyResult]] = {}

    def picture(comparison: PolicyComparison, asked: dict[str, Any], width: float) -> Picture:
        if comparison not in known:
            known[comparison] = compare(comparison)
        if len(known) > MAX_REMEMBERED:
            del known[next(iter(known))]
        slo = Slo(asked["time_to_first_token"], asked["inter_token_latency"] / 1e3)
        return policy_picture(comparison, known[comparison], slo, width)

    def draw(width: float = WIDTH, before: object = None, **asked: Any) -> Picture:
        return picture(comparison_of(asked), asked, width)

    def first_look(width: float = WIDTH, before: object = None, **asked: Any) -> Picture | None:
        comparison = comparison_of(asked)
        if comparison in known:
            return None
        return picture(replace(comparison, num_requests=FEW_REQUESTS), asked, width)

    return panel(KNOBS, draw, first_look=first_look, reflows=True)


def comparison_of(asked: dict[str, Any]) -> PolicyComparison:
    """Return what the knobs of the workload ask for, whatever the SLO is."""
    return PolicyComparison(**{name: value for name, value in asked.items() if name not in SLO_KNOBS})
