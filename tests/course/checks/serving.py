"""What the checks of the deck on electives and serving may call: figures of their handouts."""

from tests.course.checks.phase7 import tokens_per_step
from tests.course.checks.routing import hit_percent, p99_ms

__all__ = ["hit_percent", "p99_ms", "tokens_per_step"]
