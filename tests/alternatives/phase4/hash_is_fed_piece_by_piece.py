"""SHA-256 is updated token by token, with struct instead of array, and each extra key with its length."""

import hashlib
import struct
from collections.abc import Sequence

ROOT_HASH = b"\xff" * 32


def hash_block(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Sequence[str | None] = ()) -> bytes:
    digest = hashlib.sha256(parent_hash)
    digest.update(struct.pack(">I", len(token_ids)))
    for token_id in token_ids:
        digest.update(struct.pack(">q", token_id))
    for place, key in enumerate(extra_keys):
        if key is not None:
            data = key.encode("utf-8")
            digest.update(struct.pack(">II", place, len(data)) + data)
    return digest.digest()
