"""Compares three policies on the same arrivals: each request's wait, and which requests a policy delays."""

from mini_vllm_labs.pictures.policy_comparison.comparison import PolicyComparison, PolicyResult, compare_policies
from mini_vllm_labs.pictures.policy_comparison.drawing import policy_panel, policy_picture

__all__ = ["PolicyComparison", "PolicyResult", "compare_policies", "policy_panel", "policy_picture"]
