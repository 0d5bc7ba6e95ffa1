"""What one HTTP request asks of the engine, and how its answer is to look."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mini_vllm.outputs import RequestOutput
from serving.answers.form import AnswerForm
from serving.answers.logprobs import ReportedLogprobs
from serving.choices import Choice, Outputs, generate_all
from serving.served_model import ServedModel


@dataclass(frozen=True, slots=True)
class Asked:
    """The choices of one request. Those of the same prompt follow each other, `n` for each.

    `name` tells the request from all others. `echoes` are the prompts to repeat before the texts, one for each choice,
    or none. `num_logprobs` is None if no logprobs are wanted. `prompt_field` is the field that an error of the prompt
    names.
    """

    name: str
    form: AnswerForm
    served: ServedModel
    choices: Sequence[Choice]
    n: int
    prompt_field: str
    num_logprobs: int | None = None
    include_usage: bool = False
    echoes: Sequence[str] = ()
    priority: int = 0
    cache_salt: str | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def answer_id(self) -> str:
        return f"{self.form.id_prefix}-{self.name}"

    def outputs(self) -> Outputs:
        """Return the outputs of all choices as they come. Raises as `AsyncLLM.generate` does."""
        return generate_all(
            self.served.llm,
            self.choices,
            self.answer_id,
            priority=self.priority,
            cache_salt=self.cache_salt,
            timeout=self.served.settings.request_timeout,
        )

    def reported_logprobs(self) -> ReportedLogprobs | None:
        """Return what reports the logprobs of one choice, None if they are not wanted."""
        if self.num_logprobs is None:
            return None
        return ReportedLogprobs(self.served.llm.tokenizer, self.num_logprobs)

    def usage(self, outputs: Sequence[RequestOutput]) -> dict[str, object]:
        """Return the tokens of the last outputs of all choices. A prompt counts once, however many texts it got."""
        firsts = outputs[:: self.n]
        num_prompt_tokens = sum(len(output.prompt_token_ids) for output in firsts)
        num_tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
        return {
            "prompt_tokens": num_prompt_tokens,
            "completion_tokens": num_tokens,
            "total_tokens": num_prompt_tokens + num_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(output.metrics.num_cached_tokens for output in firsts)},
        }
