"""Ceiling division. (vLLM: `cdiv` in `vllm/utils/math_utils.py`.)"""


def cdiv(a: int, b: int) -> int:
    """Return a / b, rounded up to a whole number."""
    return -(-a // b)
