"""The request of `/v1/completions`. (vLLM: `entrypoints/openai/completion/protocol.py`.)"""

from typing import Annotated

from pydantic import Field, PlainValidator

from mini_vllm.sampling_params import MAX_LOGPROBS
from serving.errors import invalid
from serving.protocol.parsing import shown
from serving.protocol.sampling_fields import SamplingFields

Prompt = str | list[int]
DEFAULT_MAX_TOKENS = 16


def prompts_of(value: object) -> list[Prompt]:
    """Return the prompts of a field. Raises `ValueError` if it has none of the four legal forms."""
    prompts = [value] if isinstance(value, str) or _is_token_ids(value) else value
    if isinstance(prompts, list) and prompts:
        if all(isinstance(prompt, str) for prompt in prompts) or all(_is_token_ids(prompt) for prompt in prompts):
            return prompts
    raise ValueError(f"must be a string, a list of token ids, or a list of either, and not empty, got {shown(value)}")


def _is_token_ids(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(type(token_id) is int and token_id >= 0 for token_id in value)
    )


class CompletionRequest(SamplingFields):
    """What a client asks to have completed."""

    prompt: Annotated[list[Prompt], PlainValidator(prompts_of)]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    suffix: None = None
    best_of: None = None

    def require_possible(self) -> None:
        """Raise `ApiError` for a combination that this engine cannot serve."""
        if self.echo and self.logprobs is not None:
            raise invalid("logprobs with echo is not supported: the engine computes none of the prompt's", "logprobs")
