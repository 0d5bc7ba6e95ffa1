"""Defines the fields that chats and completions share, and parses bodies into them."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from mini_vllm.sampling_params import SamplingParams, StructuredOutputsParams
from mini_vllm_labs.serving.errors import ApiError, SentFields, invalid
from mini_vllm_labs.serving.tool_calls import ForcedCall

Model = TypeVar("Model", bound=BaseModel)
MAX_SHOWN = 60
MAX_STOPS = 64
Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # an int64, as torch's generators expect
TokenId = Annotated[int, Field(ge=0)]
Empty = Annotated[list[Any], Field(max_length=0)]


class Fields(BaseModel):
    """The fields of a request. Unknown fields and values of the wrong type (such as "5" for a number) are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def parse(model: type[Model], body: bytes) -> Model:
    """Parse the request in a body.

    Raises `ApiError` (400) if the body is not JSON, is nested too deeply or contains invalid Unicode, or if a field is
    missing, unknown or out of range.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _error_of(error.errors(include_url=False)[0]) from None


def _error_of(error: ErrorDetails) -> ApiError:
    param = ".".join(str(part) for part in error["loc"] if part != "[key]") or None
    match error["type"]:
        case "json_invalid":
            return invalid(f"the body is not valid JSON: {error['ctx']['error']}")
        case "extra_forbidden" | "none_required" | "unexpected_keyword_argument":
            message = f"Unsupported parameter: '{param}' is not supported by this server"
            return invalid(message, param, "unsupported_parameter")
        case "missing":
            return invalid(f"{param} is missing", param, "missing_required_parameter")
        case "value_error":
            return invalid(f"{param} {error['ctx']['error']}", param)
        case "model_type" if param is None:
            return invalid("the body must be a JSON object")
        case _:
            return invalid(f"{param} {_rule_of(error['msg'])}, got {shown(error['input'])}", param)


def _rule_of(message: str) -> str:
    """Return pydantic's message without its subject and in JSON's terms."""
    _, _, rule = message.partition(" ")  # drops the subject from "Input should be" and "List should have"
    if " at most 0 items" in rule:
        return "must be empty: this server does not support it"
    return rule.partition(" after validation")[0].replace("valid array", "list")


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def stop_strings(value: object) -> tuple[str, ...]:
    """Return the stop strings in a field. Raises `ValueError` unless it has a legal form."""
    texts = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(text, str) and text for text in texts) or len(texts) > MAX_STOPS:
        raise ValueError(f"must be a string or a list of at most {MAX_STOPS} non-empty strings, got {shown(value)}")
    return tuple(texts)


class StreamOptions(Fields):
    """Options for data that a stream contains in addition to the text."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class ResponseFormat(Fields):
    """OpenAI's field for requesting JSON."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class SamplingFields(Fields):
    """The fields that both routes share: OpenAI's, then vLLM's additions. A null field counts as absent."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputsParams | None = None
    n: Positive | None = None
    max_tokens: Positive | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Seed | None = None
    stop: Annotated[tuple[str, ...], PlainValidator(stop_strings)] = ()
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[int, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)] | None = None

    # The values that clients send by default. Values that would change the answer are rejected.
    best_of: Literal[1] | None = None
    store: Literal[False] | None = None
    metadata: dict[str, str] | None = None
    service_tier: Literal["auto", "default"] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    min_p: Annotated[float, Field(ge=0, le=0)] | None = None
    length_penalty: Annotated[float, Field(ge=1, le=1)] | None = None
    use_beam_search: Literal[False] | None = None
    skip_special_tokens: Literal[True] | None = None
    spaces_between_special_tokens: Literal[True] | None = None
    bad_words: Empty | None = None

    top_k: Annotated[int, Field(ge=-1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    min_tokens: NotNegative | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_STOPS)] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    priority: int | None = None
    cache_salt: Annotated[str, Field(min_length=1)] | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends by reporting its number of tokens. Raises `ApiError` if options are set without a
        stream."""
        wanted = self.stream_options or StreamOptions()
        if (wanted.include_usage or wanted.continuous_usage_stats) and not self.stream:
            raise invalid("stream_options needs stream: true", "stream_options")
        return bool(wanted.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Whether every event of a stream, not just the last, contains the number of tokens so far, as in vLLM."""
        wanted = self.stream_options or StreamOptions()
        return self.include_usage and bool(wanted.continuous_usage_stats)

    @property
    def sent(self) -> SentFields:
        """The names of the fields as the client sent them."""
        structure = "structured_outputs" if self.response_format is None else "response_format"
        return SentFields("prompt", structured_outputs=structure)

    def forced_call(self) -> ForcedCall | None:
        """Return the call that the answer must make, or None for plain text. Only routes with tools override this."""
        return None

    def sampling_params(self, max_tokens: int, logprobs: int | None) -> SamplingParams:
        """Return the engine's settings for a request. `max_tokens` is the requested limit, or the number of tokens
        left.

        Raises `ApiError` if `min_tokens` exceeds `max_tokens`.
        """
        min_tokens = self.min_tokens or 0
        if min_tokens > max_tokens:
            message = f"min_tokens must be at most {self.sent.max_tokens} ({max_tokens}), got {min_tokens}"
            raise invalid(message, "min_tokens")
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=max(0, self.top_k or 0),
            seed=self.seed,
            stop=self.stop,
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
            include_stop_str_in_output=bool(self.include_stop_str_in_output),
            min_tokens=min_tokens,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            repetition_penalty=self.repetition_penalty,
            logit_bias=self.logit_bias or None,
            logprobs=logprobs,
            structured_outputs=self._structured_outputs(),
        )

    def _structured_outputs(self) -> StructuredOutputsParams | None:
        """Return the required structure of the text. Raises `ApiError` if two fields set the structure or a schema is
        missing."""
        wanted, forced = self.response_format, self.forced_call()
        given = self.structured_outputs
        asks = {"structured_outputs": given, "response_format": wanted and wanted.type != "text", "tools": forced}
        if len(both := [name for name, value in asks.items() if value]) > 1:
            raise invalid(f"{both[0]} and {both[1]} both constrain the text: set only one of them", both[1])
        if forced is not None:
            return StructuredOutputsParams(json=forced.schema())
        if wanted is None or wanted.type == "text":
            return given
        schema = (wanted.json_schema or {}).get("schema")
        if wanted.type == "json_schema" and schema is None:
            raise invalid("response_format.json_schema.schema is missing", "response_format")
        return StructuredOutputsParams(json=schema, json_object=wanted.type == "json_object")
