"""Checks what it is given, and keeps the placeholders at 0 or more; stand-ins are put into the request's own list."""


class PlaceholderScheduling:
    def __init__(self, num_speculative_tokens: int) -> None:
        if num_speculative_tokens < 0:
            raise ValueError(f"num_speculative_tokens must be at least 0, got {num_speculative_tokens}")
        self.num_speculative_tokens = num_speculative_tokens

    def is_surely_over(self, request):
        return (
            request.num_output_placeholders
            and request.num_computed_tokens - request.num_output_placeholders
            > request.num_prompt_tokens + request.sampling_params.max_tokens - 3
        )

    def take_placeholders(self, request, num_draft_tokens):
        assert 0 <= num_draft_tokens <= self.num_speculative_tokens
        uncounted = request.num_computed_tokens - request.num_output_placeholders - num_draft_tokens
        assert uncounted <= request.num_tokens
        if uncounted < request.num_tokens:
            return
        request.num_output_placeholders += 1
        request.num_output_placeholders += num_draft_tokens
        request.spec_token_ids.clear()
        request.spec_token_ids.extend(-1 for _ in range(self.num_speculative_tokens))

    def fill_placeholders(self, request, num_tokens):
        assert num_tokens <= request.num_output_placeholders
        request.num_output_placeholders = max(0, request.num_output_placeholders - num_tokens)
