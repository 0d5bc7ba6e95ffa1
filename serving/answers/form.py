"""The forms of the two routes, chats and completions: the names in their JSON, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from serving.answers.logprobs import ReportedLogprobs, TakeLogprobs


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The JSON of one route.

    A choice in a stream is made of `before_text`, the text and `after_text`. It begins with `opening`, if there is one,
    and ends with `ending`. A choice of a whole answer has `whole_text`.
    """

    id_prefix: str
    object: str
    chunk_object: str
    opening: str | None
    before_text: str
    after_text: str
    ending: str
    whole_text: Callable[[str], dict[str, Any]]
    take_logprobs: TakeLogprobs


CHAT = AnswerForm(
    id_prefix="chatcmpl",
    object="chat.completion",
    chunk_object="chat.completion.chunk",
    opening='"delta":{"role":"assistant","content":""}',
    before_text='"delta":{"content":',
    after_text="}",
    ending='"delta":{}',
    whole_text=lambda text: {"message": {"role": "assistant", "content": text}},
    take_logprobs=ReportedLogprobs.take_for_chat,
)
COMPLETION = AnswerForm(
    id_prefix="cmpl",
    object="text_completion",
    chunk_object="text_completion",
    opening=None,
    before_text='"text":',
    after_text="",
    ending='"text":""',
    whole_text=lambda text: {"text": text},
    take_logprobs=ReportedLogprobs.take_for_completion,
)
