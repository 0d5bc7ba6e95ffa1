"""A function returns how many tokens are known for certain after the step in flight; is_surely_over compares it."""

from mini_vllm.core.request import Request
from solutions.phase8_async_scheduling import PlaceholderScheduling as Given


class PlaceholderScheduling(Given):
    def num_certain(self, request: Request) -> int:
        return request.num_tokens + min(1, request.num_output_placeholders)

    def is_surely_over(self, request: Request) -> bool:
        if request.num_tokens == self.num_certain(request):
            return False
        return self.num_certain(request) - request.num_prompt_tokens == request.sampling_params.max_tokens
