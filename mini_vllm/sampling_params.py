"""How one request's tokens are sampled, and when it stops."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampling settings of one request, named as in vLLM.

    `temperature=0` is greedy. `top_k=0` and `top_p=1` switch the two filters off. `seed` makes the
    request's own draws repeatable, whatever else is in the batch. `max_tokens` counts output tokens.
    """

    max_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False

    def validate(self) -> None:
        """Raise `ValueError` naming the first setting that is out of its range."""
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise ValueError(f"max_tokens must be an integer of at least 1, got {self.max_tokens!r}")
        if not _is_number(self.temperature) or not math.isfinite(self.temperature) or self.temperature < 0:
            raise ValueError(f"temperature must be a finite number of at least 0, got {self.temperature!r}")
        if not _is_number(self.top_p) or not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be over 0 and at most 1, got {self.top_p!r}")
        if type(self.top_k) is not int or self.top_k < 0:
            raise ValueError(f"top_k must be an integer of at least 1, or 0 for no limit, got {self.top_k!r}")
        if isinstance(self.stop, str):
            raise ValueError(f"stop must be a tuple of strings, got the string {self.stop!r}")
        if any(not text for text in self.stop):
            raise ValueError("stop must not contain the empty string: it would end every text at once")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
