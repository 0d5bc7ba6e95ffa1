"""How likely a token was. (vLLM: `logprobs.py`.)"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Logprob:
    """The natural logarithm of a token's probability, and its rank: 1 is the likeliest token."""

    logprob: float
    rank: int


TokenLogprobs = dict[int, Logprob]
"""Of one place in a text: the token that was taken, and the likeliest ones."""
