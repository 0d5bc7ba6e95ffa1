"""What the checks of the deck on the whole engine may call: figures of all handouts."""

from tests.course.checks.phase1 import steps_under
from tests.course.checks.phase2 import admitted
from tests.course.checks.phase7 import balance, step_ms
from tests.course.checks.readme import traces
from tests.course.checks.runs import stage

__all__ = ["admitted", "balance", "stage", "step_ms", "steps_under", "traces"]
