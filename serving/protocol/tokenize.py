"""The requests of `/tokenize` and `/detokenize`. (vLLM: `entrypoints/serve/tokenize/protocol.py`.)"""

from typing import Literal

from serving.errors import invalid
from serving.protocol.chat import Messages
from serving.protocol.parsing import Fields
from serving.protocol.sampling_fields import TokenId


class TokenizeRequest(Fields):
    """A text or a chat whose tokens a client asks for."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    return_token_strs: bool | None = None
    add_special_tokens: Literal[True] | None = None
    add_generation_prompt: Literal[True] | None = None

    def require_possible(self) -> None:
        """Raise `ApiError` unless there is either a prompt or a chat."""
        if (self.prompt is None) == (self.messages is None):
            raise invalid("give either prompt or messages", "prompt")


class DetokenizeRequest(Fields):
    """Tokens whose text a client asks for."""

    model: str | None = None
    tokens: list[TokenId]
