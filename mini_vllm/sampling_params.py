"""Settings for sampling one request's tokens and for stopping it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

MAX_LOGPROBS = 20
MIN_TEMPERATURE = 0.01  # dividing logits by a much smaller number gives infinity (vLLM: `_MAX_TEMP`)
FLOATS = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
INTEGERS = ("max_tokens", "top_k", "seed", "min_tokens", "logprobs")


@dataclass(frozen=True, slots=True)
class StructuredOutputsParams:
    """The required format of a text, with fields named as in vLLM; exactly one must be set.

    `json` is a JSON schema (a string or a mapping), `json_object` allows any JSON object, and `regex` must match the
    whole text. `choice` lists whole texts; `grammar` is in Lark's format. Generated JSON has no white space outside
    strings, so `disable_any_whitespace` has no effect.
    """

    json: str | Mapping[str, Any] | None = None
    regex: str | None = None
    choice: tuple[str, ...] | None = None
    grammar: str | None = None
    json_object: bool = False
    disable_any_whitespace: bool = False
    _source: str | None = None  # the source to compile, set by the validation (vLLM sets `_backend` in the same way)

    def validate(self) -> None:
        """Raise `ValueError` unless exactly one format is set and its value is legal."""
        kinds = [name for name in self.__slots__ if name not in ("disable_any_whitespace", "_source")]
        given = [name for name in kinds if getattr(self, name) not in (None, False)]
        if len(given) != 1:
            names = ", ".join(kinds)
            raise ValueError(f"structured_outputs must have exactly one of {names}; got {', '.join(given) or 'none'}")
        are_texts = isinstance(self.choice, tuple | list) and all(one and isinstance(one, str) for one in self.choice)
        if self.choice is not None and not (self.choice and are_texts):
            raise ValueError(f"structured_outputs.choice must be a tuple of non-empty strings, got {self.choice!r}")
        flags = ("json_object", bool), ("disable_any_whitespace", bool)
        for name, kind in (("regex", str), ("grammar", str), *flags):
            if (value := getattr(self, name)) is not None and not isinstance(value, kind):
                raise ValueError(f"structured_outputs.{name} must be of type {kind.__name__}, got {value!r}")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampling settings of one request, named as in vLLM.

    `temperature=0` is greedy; a value between 0 and 0.01 counts as 0.01, as in vLLM. `top_k=0` and `top_p=1` filter
    nothing. `seed` makes the draws repeatable in any batch. `max_tokens` and `min_tokens` count output tokens. The
    penalties and `logit_bias` (which maps a token id to a number to add) change the logits before sampling. The
    presence and frequency penalties count a token's uses in the output; the repetition penalty counts its uses in the
    whole text (None means the value in the model's generation_config.json). `logprobs` returns the log probability of
    each token, and those of the `logprobs` most likely tokens. `structured_outputs` allows only tokens that keep the
    text in the required format. `skip_reading_prefix_cache` computes every token, even those that are cached.
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
    min_tokens: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float | None = None
    logit_bias: Mapping[int, float] | None = None
    logprobs: int | None = None
    skip_reading_prefix_cache: bool = False
    structured_outputs: StructuredOutputsParams | None = None

    def __post_init__(self) -> None:
        """Convert other number types, such as numpy's, to Python's, and integers to floats in float settings."""
        for name in FLOATS:
            value = getattr(self, name)
            if type(value) is not float and _is_number(value):  # checking a float would take most of the time
                object.__setattr__(self, name, float(value))
        if isinstance(self.temperature, float) and 0 < self.temperature < MIN_TEMPERATURE:
            object.__setattr__(self, "temperature", MIN_TEMPERATURE)
        for name in INTEGERS:
            value = getattr(self, name)
            if type(value) is not int and isinstance(value, Integral) and not isinstance(value, bool):
                object.__setattr__(self, name, int(value))

    @property
    def changes_logits(self) -> bool:
        """Whether these settings change the model's logits before sampling."""
        penalties = self.presence_penalty, self.frequency_penalty, (self.repetition_penalty or 1) - 1
        return bool(self.min_tokens or self.logit_bias or any(penalties))

    def validate(self) -> None:
        """Raise `ValueError` naming the first setting that is out of range."""
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise ValueError(f"max_tokens must be an integer of at least 1, got {self.max_tokens!r}")
        if not _is_number(self.temperature) or self.temperature < 0:
            raise ValueError(f"temperature must be finite and at least 0, got {self.temperature!r}")
        if not _is_number(self.top_p) or not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be greater than 0 and at most 1, got {self.top_p!r}")
        if type(self.top_k) is not int or self.top_k < 0:
            raise ValueError(f"top_k must be an integer of at least 1, or 0 for no limit, got {self.top_k!r}")
        if isinstance(self.stop, str):
            raise ValueError(f"stop must be a tuple of strings, got the string {self.stop!r}")
        if any(not text for text in self.stop):
            raise ValueError("stop must not contain the empty string: it would end every text at once")
        if type(self.min_tokens) is not int or not 0 <= self.min_tokens <= self.max_tokens:
            raise ValueError(
                f"min_tokens must be an integer from 0 to max_tokens ({self.max_tokens}), got {self.min_tokens!r}"
            )
        self._require_legal_logits_settings()
        if self.structured_outputs is not None:
            self.structured_outputs.validate()
            if self.ignore_eos or self.min_tokens:
                raise ValueError(
                    "structured_outputs decides where a text ends, so ignore_eos must be False and min_tokens must be "
                    f"0, got {self.ignore_eos} and {self.min_tokens}"
                )

    def _require_legal_logits_settings(self) -> None:
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            if not _is_number(value) or not -2 <= value <= 2:
                raise ValueError(f"{name} must be from -2 to 2, got {value!r}")
        penalty = self.repetition_penalty
        if penalty is not None and (not _is_number(penalty) or not 0 < penalty <= 2):
            raise ValueError(f"repetition_penalty must be greater than 0 and at most 2, got {penalty!r}")
        for token_id, bias in (self.logit_bias or {}).items():
            if type(token_id) is not int or not _is_number(bias) or not -100 <= bias <= 100:
                raise ValueError(
                    f"logit_bias must map token ids to numbers from -100 to 100, got {token_id!r}: {bias!r}"
                )
        if self.logprobs is not None and (type(self.logprobs) is not int or not 0 <= self.logprobs <= MAX_LOGPROBS):
            raise ValueError(f"logprobs must be an integer from 0 to {MAX_LOGPROBS}, got {self.logprobs!r}")


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number that fits in a float; True and False do not count."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    return is_real and abs(value if isinstance(value, int) else float(value)) <= sys.float_info.max
