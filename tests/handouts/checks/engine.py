"""Functions for checking the deck about the whole engine, which has figures from all handouts."""

from tests.handouts.checks.phase1 import steps_under
from tests.handouts.checks.phase2 import admitted
from tests.handouts.checks.phase7 import balance, step_ms
from tests.handouts.checks.readme import traces
from tests.handouts.checks.runs import stage

__all__ = ["admitted", "balance", "stage", "step_ms", "steps_under", "traces"]
