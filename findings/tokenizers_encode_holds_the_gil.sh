#!/usr/bin/env bash
# tokenizers: `Tokenizer.encode` holds Python's global lock until it returns; `encode_batch` with one text does not.
#
# A server that encodes a long prompt in a thread with `encode` therefore stops all its other threads, event loop
# included, for as long as the call takes. transformers' own tokenizers call `encode_batch` even for a single text.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/env"
python="$place/env/bin/python"
"$python" -m pip install --quiet tokenizers==0.23.3
"$python" - <<'PY'
import threading
import time

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

text = 60_000 * "The kite of Mina flies over the hill. "
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
tokenizer.train_from_iterator([text[:10_000]], trainers.BpeTrainer(vocab_size=300, show_progress=False))


def longest_pause(encode):
    """Return the longest pause of this thread as a share of the time that another thread spends in `encode`."""
    other, pauses, began = threading.Thread(target=encode), [], time.perf_counter()
    other.start()
    last = began
    while other.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        pauses.append(now - last)
        last = now
    return max(pauses) / (last - began)


alone = longest_pause(lambda: tokenizer.encode(text))
batch = longest_pause(lambda: tokenizer.encode_batch([text]))
print(f"tokenizers {tokenizers.__version__}: the other thread pauses for {alone:.0%} of `encode`, {batch:.0%} of `encode_batch`")
assert alone > 0.8 and batch < 0.5
PY
