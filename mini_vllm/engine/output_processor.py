"""From kept tokens to outputs: text, stop strings, metrics. (vLLM: `v1/engine/output_processor.py`.)"""

from dataclasses import dataclass, replace

from mini_vllm.core.request import Request
from mini_vllm.engine.detokenizer import IncrementalDetokenizer
from mini_vllm.engine.metrics import RequestMetrics
from mini_vllm.engine.tokenizer import Tokenizer
from mini_vllm.outputs import CompletionOutput, RequestOutput


@dataclass(slots=True)
class RequestState:
    """What the engine keeps of a request besides what the scheduler needs."""

    request: Request
    prompt: str | None
    detokenizer: IncrementalDetokenizer
    metrics: RequestMetrics
    num_shown: int = 0


class OutputProcessor:
    """The states of all live requests."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.states: dict[str, RequestState] = {}

    def add_request(self, request: Request, prompt: str | None, now: float) -> None:
        """Start to follow a request."""
        params = request.sampling_params
        detokenizer = IncrementalDetokenizer(
            self.tokenizer, request.prompt_token_ids, params.stop, params.include_stop_str_in_output
        )
        self.states[request.request_id] = RequestState(request, prompt, detokenizer, RequestMetrics(now))

    def note_scheduled(self, request_ids: list[str], now: float) -> None:
        """Note which requests a step computes."""
        for request_id in request_ids:
            metrics = self.states[request_id].metrics
            if metrics.first_scheduled_time is None:
                metrics.first_scheduled_time = now

    def take_tokens(self, request_id: str, token_ids: list[int], now: float) -> str | None:
        """Turn new tokens into text; return the stop string that ends the request, if there is one."""
        state = self.states[request_id]
        state.metrics.token_arrived(now, len(token_ids))
        stop = state.detokenizer.add(self._visible(state.request, token_ids))
        if stop is None and state.request.is_finished:
            stop = state.detokenizer.finish()
        return stop

    def output(self, request_id: str, now: float, error: str | None = None) -> RequestOutput:
        """Return the request's output so far; a finished request is forgotten with it."""
        state = self.states[request_id]
        request, metrics = state.request, state.metrics
        if request.is_finished:
            state.detokenizer.finish()
            metrics.finished_time = now
            del self.states[request_id]
        metrics.num_preemptions = request.num_preemptions
        metrics.num_cached_tokens = max(0, request.num_cached_tokens)
        text = state.detokenizer.showable()
        new_text, state.num_shown = text[state.num_shown :], len(text)
        completion = CompletionOutput(text, request.output_token_ids, request.finish_reason, request.stop_reason)
        return RequestOutput(
            request_id, state.prompt, request.prompt_token_ids, [completion], replace(metrics), new_text, error
        )

    def _visible(self, request: Request, token_ids: list[int]) -> list[int]:
        """Leave out the token that ended the request, unless the caller wants to see what stopped it."""
        ended_by_token = request.finish_reason == "stop"
        wanted = request.sampling_params.include_stop_str_in_output
        return token_ids[:-1] if ended_by_token and not wanted else token_ids
