"""Blocks are hashed as one JSON document, and the chain is the hexadecimal parent."""

import hashlib
import json
from collections.abc import Sequence


def hash_block(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Sequence[str | None] = ()) -> bytes:
    keys = list(extra_keys) if set(extra_keys) - {None} else []
    document = {"parent": parent_hash.hex(), "tokens": [int(token_id) for token_id in token_ids], "keys": keys}
    return hashlib.sha256(json.dumps(document).encode()).digest()
