"""Samples if at least the known tokens are computed: what is expected is planned as a whole or not at all."""


class PlaceholderScheduling:
    def __init__(self, num_speculative_tokens):
        self._most = num_speculative_tokens

    def is_surely_over(self, request):
        return (
            request.num_output_placeholders >= 1 and request.num_output_tokens + 1 >= request.sampling_params.max_tokens
        )

    def take_placeholders(self, request, num_draft_tokens):
        if request.num_computed_tokens >= request.num_tokens:
            request.num_output_placeholders += num_draft_tokens + 1
            request.spec_token_ids = [-1 for _ in range(self._most)]

    def fill_placeholders(self, request, num_tokens):
        for _ in range(num_tokens):
            request.num_output_placeholders -= 1
