#!/bin/sh
# llguidance 1.9.1: a Lark grammar may name the end-of-text token. The mask then allows this token and nothing else,
# but the matcher does not consume it. An engine that samples from the mask and asks the matcher whether the token fits
# (as `consume_token` suggests) rejects the only token that is allowed. The end is never passed on: an engine has to
# look it up in the mask and end the text by itself. Exits 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" llguidance==1.9.1
PYTHONPATH=$folder python3 - <<'PYTHON'
from importlib.metadata import version

from llguidance import LLMatcher, LLTokenizer


class Letters:
    """Tokens 0 to 255 are bytes; 256 ends a text and 257 is another control token."""

    is_tokenizer_wrapper = True
    eos_token_id, bos_token_id, special_token_ids = 256, None, [256, 257]
    tokens = [*(bytes([byte]) for byte in range(256)), b"\xff<|end|>", b"\xff<|call|>"]

    def __call__(self, text):
        return list(text.encode())


def allowed(matcher):
    bits = matcher.compute_bitmask()
    return [token for token in range(258) if bits[token // 8] >> token % 8 & 1]


tokenizer, seen = LLTokenizer(Letters()), {}
for name, token in (("<|call|>", 257), ("<|end|>", 256)):
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(f'start: "a" {name}'))
    matcher.try_consume_tokens([ord("a")])
    mask = allowed(matcher)
    seen[name] = mask, matcher.try_consume_tokens([token])
    print(f"after 'a' the mask allows {mask}; of [{token}] the matcher consumes {seen[name][1]}")
print("llguidance", version("llguidance"))
raise SystemExit(seen != {"<|call|>": ([257], 1), "<|end|>": ([256], 0)})
PYTHON
