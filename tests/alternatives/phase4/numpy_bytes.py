"""Tokens become bytes with numpy."""

import hashlib
import json

import numpy as np


def hash_block(parent_hash, token_ids, extra_keys=()):
    data = np.asarray(list(token_ids), dtype=np.int64).tobytes()
    keys = list(extra_keys)
    if any(k is not None for k in keys):
        data += json.dumps(keys, ensure_ascii=False).encode("utf-8")
    return hashlib.sha256(bytes(parent_hash) + data).digest()
