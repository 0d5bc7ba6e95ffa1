"""The knobs, and the memory of where they stood before."""

from typing import TYPE_CHECKING, Any

from course.simulator.experiment import Experiment
from course.views.chunking_dial.drawing import chunking_picture
from course.views.chunking_dial.trial import Deployment, Setting, Trial, try_setting
from course.views.knobs import Choice, Slide
from course.views.picture import Picture
from course.views.show import panel

if TYPE_CHECKING:
    from course.views.widgets import Panel

KNOBS = (
    Slide("max_num_batched_tokens", "max_num_batched_tokens", 2048, 256, 8192, 256, "tokens"),
    Slide("long_prefill_token_threshold", "long_prefill_token_threshold (0: none)", 0, 0, 4096, 128, "tokens"),
    Slide("max_num_seqs", "max_num_seqs", 256, 8, 256, 8, "requests"),
    Slide("load", "load", 90, 50, 120, 5, "%"),
    Choice("workload", "workload", "mixed", ("mixed", "documents", "burst", "chat")),
)


def chunking_dial(gpu: str = "H100", model: str = "Llama-3.1-8B", num_requests: int = 2_000) -> "Panel":
    """Return knobs over how long one waits. Each answer has the one before it as a ghost.

    Raises `ValueError` for a GPU or a model that is not in the simulator's tables, or do not go together.
    """
    Experiment(gpu=gpu, model=model).require_legal()
    return panel(KNOBS, Dial(Deployment(gpu, model, num_requests)))


class Dial:
    """Draws a setting over the one before."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.last: Trial | None = None

    def __call__(self, **values: Any) -> Picture:
        before, self.last = self.last, try_setting(Setting(**values), self.deployment)
        return chunking_picture(self.last, before)
