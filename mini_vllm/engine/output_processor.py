"""Turns accepted tokens into outputs with text, stop strings and metrics. (vLLM: `v1/engine/output_processor.py`.)"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mini_vllm.core.request import Request
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.detokenizer import IncrementalDetokenizer
from mini_vllm.outputs import CompletionOutput, RequestMetrics, RequestOutput, TokenLogprobs


@dataclass(slots=True)
class RequestState:
    """The data about a request that the engine needs but the scheduler does not."""

    request: Request
    prompt: str | None
    detokenizer: IncrementalDetokenizer
    metrics: RequestMetrics
    num_tokens_taken: int = 0
    num_tokens_output: int = 0
    num_characters_output: int = 0
    logprobs: list[TokenLogprobs | None] = field(default_factory=list)


class OutputProcessor:
    """Holds the states of all requests whose last output is pending.

    After an interrupted step `is_behind` is True: some tokens may not have been turned into text, and some requests may
    have ended without an output. Every text is then rebuilt, and the next step returns the missing outputs.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.states: dict[str, RequestState] = {}
        self.is_behind = False
        self._undelivered: dict[str, tuple[RequestState, int, int]] = {}

    def note_delivered(self) -> None:
        """Mark all outputs so far as delivered to the caller."""
        self._undelivered = {}

    def add_request(self, request: Request, prompt: str | None, now: float) -> None:
        """Start tracking a request."""
        self.states[request.request_id] = RequestState(request, prompt, self._detokenizer(request), RequestMetrics(now))

    def note_scheduled(self, request_ids: Iterable[str], now: float) -> None:
        """Record the time of each request's first step."""
        for request_id in request_ids:
            metrics = self.states[request_id].metrics
            if metrics.first_scheduled_time is None:
                metrics.first_scheduled_time = now

    def note_logprobs(self, kept: Mapping[str, Sequence[int]], logprobs: Mapping[str, Sequence[TokenLogprobs]]) -> None:
        """Store the logprobs of the newest tokens, `kept`, for each request that wants logprobs."""
        for request_id in kept.keys() & logprobs.keys():
            state, num_new_tokens = self.states[request_id], len(kept[request_id])
            first = state.request.num_output_tokens - num_new_tokens
            # An interrupt between a step's tokens and its logprobs leaves a gap.
            gap = [None] * (first - len(state.logprobs))
            state.logprobs[first:] = [*gap, *logprobs[request_id][:num_new_tokens]]

    def requests(self, request_ids: Iterable[str]) -> dict[str, Request]:
        """Return the requests with these ids."""
        return {request_id: self.states[request_id].request for request_id in request_ids}

    def take_new_tokens(self, request_id: str, now: float) -> tuple[str | None, int]:
        """Turn a request's new tokens into text; return the completed stop string, if any.

        Tokens after the stop string, which are possible in a step with drafts, are removed from the request; their
        number is also returned.
        """
        state = self.states[request_id]
        request, stop, num_tokens = state.request, None, state.request.num_tokens
        first = request.num_prompt_tokens + state.num_tokens_taken
        for place, token_id in enumerate(self._visible(request, request.all_token_ids[first:]), start=first):
            stop = state.detokenizer.add([token_id])
            if stop is not None:
                del request.all_token_ids[place + 1 :]
                break
        if stop is None and request.is_finished:
            stop = state.detokenizer.finish()
        state.num_tokens_taken = request.num_output_tokens
        state.metrics.tokens_arrived(now, state.num_tokens_taken)
        return stop, num_tokens - request.num_tokens

    def output(self, request_id: str, now: float, error: str | None = None) -> RequestOutput:
        """Return the request's output so far, and drop its state if it is finished."""
        state = self.states[request_id]
        self._undelivered[request_id] = state, state.num_tokens_output, state.num_characters_output
        request, metrics = state.request, state.metrics
        if request.is_finished:
            state.detokenizer.finish()
            metrics.finished_time = now
            del self.states[request_id]
        metrics.num_preemptions = request.num_preemptions
        metrics.num_cached_tokens = max(0, request.num_cached_tokens)
        text = state.detokenizer.stable_text()
        new_text, state.num_characters_output = text[state.num_characters_output :], len(text)
        num_new_tokens = request.num_output_tokens - state.num_tokens_output
        state.num_tokens_output = request.num_output_tokens
        completion = CompletionOutput(text, request.output_token_ids, request.finish_reason, request.stop_reason)
        if request.sampling_params.logprobs is not None:
            gap = [None] * (request.num_output_tokens - len(state.logprobs))
            completion.logprobs = [*state.logprobs[: request.num_output_tokens], *gap]
        return RequestOutput(
            request_id,
            state.prompt,
            request.prompt_token_ids,
            [completion],
            metrics.copy(),
            new_text,
            num_new_tokens,
            error,
        )

    def fall_behind(self) -> None:
        """Handle an interrupted step: outputs since the last `note_delivered` did not reach the caller."""
        for request_id, (state, num_tokens, num_characters) in self._undelivered.items():
            state.num_tokens_output, state.num_characters_output = num_tokens, num_characters
            self.states[request_id] = state
        self._undelivered = {}
        for state in self.states.values():
            state.detokenizer, state.num_tokens_taken = self._detokenizer(state.request), 0
        self.is_behind = bool(self.states)

    def behind(self) -> dict[str, Request]:
        """Return the requests whose output an interrupted step lost, and update the text of the others."""
        if not self.is_behind:
            return {}
        late = {}
        for request_id, state in self.states.items():
            if state.request.is_finished or state.request.num_output_tokens > state.num_tokens_output:
                late[request_id] = state.request
            else:
                self.take_new_tokens(request_id, state.metrics.last_token_time or 0.0)
        self.is_behind = False
        return late

    def _detokenizer(self, request: Request) -> IncrementalDetokenizer:
        params = request.sampling_params
        return IncrementalDetokenizer(
            self.tokenizer, request.prompt_token_ids, params.stop, params.include_stop_str_in_output, params.min_tokens
        )

    def _visible(self, request: Request, token_ids: list[int]) -> list[int]:
        """Omit the token that ended the request, unless `include_stop_str_in_output` is set."""
        ended_by_token = request.finish_reason == "stop" and not isinstance(request.stop_reason, str)
        included = request.sampling_params.include_stop_str_in_output
        return token_ids[:-1] if ended_by_token and not included else token_ids
