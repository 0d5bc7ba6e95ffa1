#!/bin/sh
# llguidance 1.9.1: where the grammar leaves one text only, the mask is the first token of what the tokenizer makes of this
# text, and nothing checks that this token spells it. Tokenizers of Llama 2's kind put a blank before every text. Then
# the mask allows a single token, which the same matcher refuses to consume. Exits 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" llguidance==1.9.1
PYTHONPATH=$folder python3 - <<'PYTHON'
from importlib.metadata import version

from llguidance import LLMatcher, LLTokenizer


class Letters:
    """Tokens 0 to 255 are bytes, and 256 ends a text."""

    is_tokenizer_wrapper = True
    eos_token_id, bos_token_id, special_token_ids = 256, None, [256]
    tokens = [*(bytes([byte]) for byte in range(256)), b"\xff<|end|>"]

    def __init__(self, prefix):
        self.prefix = prefix

    def __call__(self, text):
        return list(f"{self.prefix}{text}".encode())


seen = {}
for prefix in ("", " "):
    matcher = LLMatcher(LLTokenizer(Letters(prefix)), LLMatcher.grammar_from_lark('start: "yes"'))
    bits = matcher.compute_bitmask()
    mask = [token for token in range(257) if bits[token // 8] >> token % 8 & 1]
    seen[prefix] = bytes(mask), matcher.try_consume_tokens(mask)
    print(f"a tokenizer that begins with {prefix!r}: the mask allows {seen[prefix][0]}, consumed: {seen[prefix][1]}")
print("llguidance", version("llguidance"))
raise SystemExit(seen != {"": (b"y", 1), " ": (b" ", 0)})
PYTHON
