"""Numpy bytes."""

import hashlib
import json

import numpy as np


def hash_block(parent_hash, token_ids, extra_keys=()):
    """Return the SHA-256 of a full block: its parent's hash, its tokens, and what else it depends on.

    Chaining makes one hash stand for the whole prefix, so `extra_keys` (tenant salt, adapter id) are
    needed in the first block only, whose parent is `ROOT_HASH`.
    """
    data = np.asarray(list(token_ids), dtype=np.int64).tobytes()
    keys = list(extra_keys)
    if any(k is not None for k in keys):
        data += json.dumps(keys, ensure_ascii=False).encode("utf-8")
    return hashlib.sha256(bytes(parent_hash) + data).digest()
