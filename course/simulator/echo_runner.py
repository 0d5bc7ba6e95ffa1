"""A runner without a model, for engines of which only the times are of interest."""

from collections.abc import Sequence

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest


class EchoRunner:
    """A `ModelRunner` that answers everybody with the last token of its prompt.

    Put a `TimedRunner` with a `CostModel` around it and an engine runs on simulated time.
    """

    vocab_size = 2**31

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        return ModelRunnerOutput(
            {row.request.request_id: [row.request.prompt_token_ids[-1]] for row in batch if row.needs_token}
        )
