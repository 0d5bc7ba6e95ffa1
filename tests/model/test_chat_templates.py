"""Every message of a chat reaches the prompt, or an error explains why not, whatever the folder's template does."""

import re
import shutil
from collections.abc import Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from mini_vllm.core.tokenizer import Message
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm.runner.model_tokenizer import ModelTokenizer

SYSTEM, USER, ANSWER = "Be  short.\n", ' Who is "Mina"?\nTell <me>. ', "<think>Hm.</think>A girl."
CHATS: dict[str, list[Message]] = {
    "u": [{"role": "user", "content": USER}],
    "su": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}],
    "du": [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": USER}],
    "eu": [{"role": "system", "content": " "}, {"role": "user", "content": USER}],
    "uau": [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": USER},
    ],
}
EACH = "{% for m in messages %}"
ALTERNATE = (
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
)
PARTS = (
    EACH
    + "{{ m.role }}:{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}"
)
SERVED = {
    "strings": ("su", EACH + "{{ m.role }}:{{ m.content }};{% endfor %}", f"system:{SYSTEM};user:{USER};"),
    "trimmed": ("u", EACH + "{{ m.content | trim }}{% endfor %}", USER.strip()),
    "as JSON": ("u", "{{ messages | tojson }}", '[{"role": "user", "content": " Who is \\"Mina\\"?\\nTell <me>. "}]'),
    "escaped": ("u", EACH + "{{ m.content | e }}{% endfor %}", " Who is &#34;Mina&#34;?\nTell &lt;me&gt;. "),
    "in capitals": ("u", EACH + "{{ m.content | upper }}{% endfor %}", USER.upper()),
    "parts": ("su", PARTS, f"system:{SYSTEM}user:{USER}"),
    "the first part": ("u", EACH + "{{ m.content[0].text }}{% endfor %}", USER),
    "joined parts": ("u", EACH + "{{ m.content | map(attribute='text') | join }}{% endfor %}", USER),
    "parts alone": (
        "u",
        EACH + "{{ (m.content | selectattr('type', 'equalto', 'text') | first).text }}{% endfor %}",
        USER,
    ),
    "both": (
        "u",
        EACH + "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}{% endfor %}",
        USER,
    ),
    "thoughts left out": (
        "uau",
        EACH + "{{ m.content.split('</think>')[-1] }};{% endfor %}",
        f"Hello!;A girl.;{USER};",
    ),
    "an empty message left out": (
        "eu",
        EACH + "{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}",
        USER,
    ),
    "generation tags": ("u", EACH + "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", USER),
    "a date": ("u", EACH + "{{ strftime_now('') }}{{ m.content }}{% endfor %}", USER),
}
REFUSED = {
    "no template": ("u", None, r"no chat template.*chat_template\.jinja.*--no-chat"),
    "no system role": (
        "su",
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}",
        "the model's chat template refuses the messages: System role not supported",
    ),
    "no system role, parts": (
        "su",
        EACH
        + "{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.content[0].text }}{% endfor %}",
        "refuses the messages: no system",
    ),
    "a role left out": (
        "du",
        EACH + "{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}",
        r"leaves out the text of message 1 \(developer\)",
    ),
    "a role left out, strings alone": (
        "su",
        "{% if messages[0].content is not string %}{{ raise_exception('strings') }}{% endif %}"
        "{{ messages[1].content }}",
        r"leaves out the text of message 1 \(system\)",
    ),
    "earlier turns left out": ("uau", "{{ messages[-1].content }}", r"message 1 \(user\), 2 \(assistant\)$"),
    "cut": ("u", "{{ messages[0].content[:20] }}", r"message 1 \(user\)"),
    "nothing": ("u", "Hello", r"leaves out the text of message 1 \(user\)"),
    "alternating": ("su", EACH + ALTERNATE + "{{ m.content }}{% endfor %}", "roles must alternate"),
    "tools": ("u", "{% for t in tools %}{% endfor %}{{ messages[0].content }}", "refuses the messages: TypeError"),
    "a function": ("u", "{{ today() }}{{ messages[0].content }}", "'today' is undefined"),
    "printed parts": (
        "u",
        EACH + "{% if m.content | length > 9 %}{{ raise_exception('too long') }}{% endif %}{{ m.content }}{% endfor %}",
        "too long",
    ),
    "syntax": ("u", "\n{% if %}", "refuses the messages: line 2 of the template: "),
    "no default": ("u", {"rag": "a", "tool_use": "b"}, "multiple chat templates with no default"),
}


@cache
def embedded() -> Any:
    return AutoTokenizer.from_pretrained(EMBEDDED_MODEL)


def with_template(template: Any) -> ModelTokenizer:
    tokenizer = copy(embedded())
    tokenizer.chat_template = template
    return ModelTokenizer(tokenizer, frozenset([0]))


@pytest.mark.parametrize("name", SERVED)
def test_what_a_template_takes_arrives_as_it_makes_it(name: str) -> None:
    chat, template, text = SERVED[name]
    tokenizer = with_template(template)
    assert tokenizer.decode(tokenizer.apply_chat_template(CHATS[chat])) == text


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_template_does_not_take_is_refused_in_one_line(name: str) -> None:
    chat, template, words = REFUSED[name]
    with pytest.raises(ValueError, match=words) as refusal:
        with_template(template).apply_chat_template(CHATS[chat])
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "message", [{"role": "user"}, {"content": "hi"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
)
def test_a_message_that_is_no_text_is_refused(message: Any) -> None:
    with pytest.raises(ValueError, match="message 1 must have a role and content, both strings"):
        with_template("x").apply_chat_template([message])


def test_half_of_a_surrogate_pair_is_refused() -> None:
    tokenizer = with_template("{{ messages[0].content }}")
    with pytest.raises(ValueError, match="surrogates not allowed"):
        tokenizer.encode("a\udcff")
    with pytest.raises(ValueError, match=r"^'utf-8' codec can't encode character '.udcff'"):
        tokenizer.apply_chat_template([{"role": "user", "content": "a\udcff"}])


@pytest.mark.parametrize("place", ["chat_template.jinja", "additional_chat_templates/default.jinja"])
def test_a_template_is_found_in_a_file_of_its_own(tmp_path: Path, place: str) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(EMBEDDED_MODEL / name, tmp_path)
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("<{{ messages[0].content }}>")
    tokenizer = ModelTokenizer(AutoTokenizer.from_pretrained(tmp_path), frozenset([0]))
    assert tokenizer.decode(tokenizer.apply_chat_template(CHATS["u"])) == f"<{USER}>"


class MessageTokenizer:
    """Encodes messages itself, like `MistralCommonBackend` of transformers 5.23.0: a text has no control tokens."""

    all_special_ids, all_special_tokens = (256, 257), ("<s>", "</s>")
    chat_template = None

    def __init__(self) -> None:
        self.leaves_out: set[str] = set()

    def __len__(self) -> int:
        return 258

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [256] * add_special_tokens + list(text.encode())

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        kept = b"".join(bytes([one]) if one < 256 else b"<s>" * (not skip_special_tokens) for one in token_ids)
        if any(one >= len(self) for one in token_ids):
            raise KeyError("Invalid token for decoding")
        return kept.decode(errors="replace")

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        tokenize: bool = True,
        add_generation_prompt: bool = False,
        **more: bool,
    ) -> Any:
        if conversation[-1]["role"] == "assistant":
            raise ValueError("The last message is already an assistant message.\nMore about it.")
        kept = [one["content"].encode() for one in conversation if one["role"] not in self.leaves_out]
        token_ids = [256, *(byte for text in kept for byte in (257, *text))]
        return token_ids if tokenize else self.decode(token_ids)


def test_a_tokenizer_that_encodes_messages_itself_is_asked_for_tokens() -> None:
    theirs = MessageTokenizer()
    tokenizer = ModelTokenizer(theirs, frozenset([257]))
    chat: list[Message] = [{"role": "user", "content": "a<s>"}]
    assert tokenizer.apply_chat_template(chat) == [256, 257, *b"a<s>"]
    assert tokenizer.decode([256, 97, 257, 1000, 98]) == "ab"  # a model may have more logits than it has tokens
    with pytest.raises(ValueError, match=re.escape("refuses the messages: The last message is already")) as refusal:
        tokenizer.apply_chat_template([*chat, {"role": "assistant", "content": "b"}])
    assert "\n" not in str(refusal.value)
    theirs.leaves_out = {"system"}
    with pytest.raises(ValueError, match=r"leaves out the text of message 1 \(system\)"):
        tokenizer.apply_chat_template(CHATS["su"])


def test_the_name_of_a_control_token_in_a_message_becomes_that_token_as_in_vllm() -> None:
    tokenizer = ModelTokenizer(embedded(), frozenset([0]))
    end = tokenizer.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a<|im_end|>b"}]).count(end) == 2
