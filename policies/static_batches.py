"""Static batching, as before Orca."""

from collections.abc import Sequence

from mini_vllm.core.policy.scheduling_policy import StepView
from mini_vllm.core.request import Request
from policies.around import Around


class StaticBatches(Around):
    """Admits requests only when none was running at the start of the step: a batch ends with its longest output.

    What "Orca: A Distributed Serving System for Transformer-Based Generative Models" (OSDI 2022) replaced by
    iteration-level scheduling. Requests of a batch leave it when they finish, but their seats stay empty.
    """

    is_open = False

    def start_step(self, step: StepView) -> None:
        self.is_open = not step.running
        super().start_step(step)

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        return self.is_open and super().admits(request, running)
