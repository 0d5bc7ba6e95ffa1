"""Encodes chats with a model's template, and raises an error with an explanation if a message would be lost.

vLLM: `entrypoints/chat_utils.py`. vLLM infers from a template's syntax whether a message's content must be a string or
a list of parts. This module tries both forms, with a mark before and after every text.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError
from transformers import PreTrainedTokenizerBase

from mini_vllm.core.tokenizer import Message, Tool

Chat = list[dict[str, Any]]
Form = Callable[[str], Any]
FORMS: tuple[Form, ...] = (str, lambda text: [{"type": "text", "text": text}])
REPR = r"""['"]text['"]: ?['"]"""  # a part that was printed as a Python or JSON literal
MARK = r"7(?:386\d{7}386|915\d{7}915)4"
NO_TEMPLATE = (
    "this model has no chat template, in tokenizer_config.json or chat_template.jinja: send prompts as plain text "
    "(generate --no-chat, /v1/completions), or add the template from its model card to its folder"
)


def encode_chat(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
    """Encode a chat with a transformers tokenizer, up to the start of the answer.

    As in vLLM, a control token's name in a message becomes that token, unless the tokenizer encodes messages itself
    (mistral-common). Raises `ValueError` if there is no template, or if it refuses the messages or omits a text.
    """
    for number, message in enumerate(messages, start=1):
        if not all(isinstance(message.get(name), str) for name in ("role", "content")):
            raise ValueError(f"message {number} must have a role and content, both strings, got {message!r:.200}")
        message["content"].encode()  # raises `ValueError` for a lone surrogate
    if has_template(tokenizer) and not tokenizer.chat_template:
        raise ValueError(NO_TEMPLATE)
    reasons: list[tuple[bool, str]] = []  # whether the template accepts this form, and the template's error if not
    for form in FORMS:
        try:
            lost = _lost(tokenizer, messages, form, tools)
            if not lost:
                return _encode(tokenizer, [{**one, "content": form(one["content"])} for one in messages], tools)
            roles = ", ".join(f"{number + 1} ({messages[number]['role']})" for number in lost)
            reasons.append((len(lost) < len(messages), f"leaves out the text of message {roles}"))
        except Exception as error:  # a template may raise any exception
            reasons.append((type(error) is TemplateError, f"refuses the messages: {_in_words(error)}"))
    reason = next((words for is_made_for, words in reasons if is_made_for), reasons[0][1])
    raise ValueError(f"the model's chat template {reason}")


def has_template(tokenizer: Any) -> bool:
    """Return whether a tokenizer uses a template; if not, it encodes messages itself."""
    return getattr(type(tokenizer), "apply_chat_template", None) is PreTrainedTokenizerBase.apply_chat_template


def _encode(tokenizer: Any, chat: Chat, tools: Sequence[Tool]) -> list[int]:
    if has_template(tokenizer):
        return list(tokenizer.encode(_text(tokenizer, chat, tools), add_special_tokens=False))
    # This tokenizer would encode a rendered chat's control tokens as plain text.
    extra = {"tools": [*tools]} if tools else {}
    return list(
        tokenizer.apply_chat_template(chat, tokenize=True, add_generation_prompt=True, return_dict=False, **extra)
    )


def _text(tokenizer: Any, chat: Chat, tools: Sequence[Tool]) -> str:
    if has_template(tokenizer):
        given = [*tools] or None
        return str(tokenizer.apply_chat_template(chat, tools=given, tokenize=False, add_generation_prompt=True))
    return str(tokenizer.decode(_encode(tokenizer, chat, tools)))


def _lost(tokenizer: Any, messages: Sequence[Message], form: Form, tools: Sequence[Tool]) -> list[int]:
    """Return the indices of messages whose text is missing, incomplete, or printed as a Python or JSON literal."""
    begins, ends = ([f"7{side}{place:07}{side}4" for place in range(len(messages))] for side in (386, 915))
    marked = [
        f"{begin}{one['content']}{end}" if one["content"].strip() else one["content"]
        for one, begin, end in zip(messages, begins, ends, strict=True)
    ]
    chat = [{**one, "content": form(content)} for one, content in zip(messages, marked, strict=True)]
    text = _text(tokenizer, chat, tools)
    # render only once, because chats may be long
    found, literal = (set(re.findall(f"{before}({MARK})", text)) for before in ("", REPR))
    lost = []
    for place, one in enumerate(messages):
        # Many templates omit the reasoning at the start of earlier answers.
        needed = [ends[place]] if one["role"] == "assistant" else [begins[place], ends[place]]
        is_there = found.issuperset(needed) and begins[place] not in literal
        if one["content"].strip() and not is_there:
            lost.append(place)
    return lost


def _in_words(error: Exception) -> str:
    """Return an error's message in one line."""
    if isinstance(error, TemplateSyntaxError):
        return f"line {error.lineno} of the template: {error.message}"
    text = (str(error).strip() or "no reason given").splitlines()[0]
    return text if isinstance(error, TemplateError | ValueError) else f"{type(error).__name__}: {text}"
