"""A runner without a model, for simulations in which only the times matter."""

from collections.abc import Sequence

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest


class EchoRunner:
    """A `ModelRunner` that generates the last token of the prompt for every request.

    Wrapped in a `TimedRunner` with a `CostModel`, it makes an engine run on simulated time.
    """

    vocab_size = 2**31

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        return ModelRunnerOutput(
            {row.request.request_id: [row.request.prompt_token_ids[-1]] for row in batch if row.needs_token}
        )
