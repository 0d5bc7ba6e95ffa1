#!/usr/bin/env bash
# transformers: a model with `sliding_window=1` attends to one token without a cache, and to all of them with one.
#
# `DynamicSlidingWindowLayer.update` keeps the last `sliding_window - 1` keys with the slice
# `keys[:, :, -sliding_window + 1:, :]`. For a window of 1 that slice starts at 0, so every key stays, and each new
# token attends to all of them. `generate` therefore gives one text with its cache and a different
# one with `use_cache=False`, which is what the model computes in training. Windows of 2 and more agree.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/env"
python="$place/env/bin/python"
"$python" -m pip install --quiet torch==2.13.0 transformers==5.23.0
"$python" - <<'PY' 2> /dev/null
import torch
import transformers
from transformers import MistralConfig, MistralForCausalLM

print(f"transformers {transformers.__version__}, torch {torch.__version__}")
agree = {}
for window in (1, 2, 3):
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    config = MistralConfig(**sizes, **heads, sliding_window=window, eos_token_id=None, pad_token_id=0)
    model, prompt = MistralForCausalLM(config).eval(), torch.arange(3, 23)[None]
    texts = [model.generate(prompt, max_new_tokens=24, do_sample=False, use_cache=cache) for cache in (True, False)]
    agree[window] = torch.equal(*texts)
    print(f"sliding_window={window}: with and without the cache {'equal' if agree[window] else 'DIFFERENT'}")
assert agree == {1: False, 2: True, 3: True}, agree
PY
