"""What a caller gets back: vLLM's `RequestOutput` and `CompletionOutput`."""

from dataclasses import dataclass

from mini_vllm.engine.metrics import RequestMetrics
from mini_vllm.logprobs import TokenLogprobs


@dataclass(slots=True)
class CompletionOutput:
    """The text of one request. `finish_reason` is None while it grows.

    `logprobs` has an entry for each token if the request asks for it; None for one that an interrupted step has lost.
    """

    text: str
    token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: list[TokenLogprobs | None] | None = None


@dataclass(slots=True)
class RequestOutput:
    """One request and its completion so far. `outputs` has one element.

    `new_text` and the last `num_new_tokens` tokens have come since the output before.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    metrics: RequestMetrics
    new_text: str = ""
    num_new_tokens: int = 0
    error: str | None = None

    @property
    def finished(self) -> bool:
        return self.outputs[0].finish_reason is not None
