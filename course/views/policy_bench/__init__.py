"""Three policies on the same arrivals: what one waits, and who waits for whom."""

from course.views.policy_bench.bench import policy_bench
from course.views.policy_bench.contest import Contest, Outcome, hold_contest
from course.views.policy_bench.drawing import policy_picture

__all__ = ["Contest", "Outcome", "hold_contest", "policy_bench", "policy_picture"]
