"""Three policies on the same arrivals: what each request waits, and which requests pay for a policy."""

from course.views.policy_comparison.comparison import PolicyComparison, PolicyResult, compare_policies
from course.views.policy_comparison.drawing import policy_picture
from course.views.policy_comparison.panel import policy_panel

__all__ = ["PolicyComparison", "PolicyResult", "compare_policies", "policy_panel", "policy_picture"]
