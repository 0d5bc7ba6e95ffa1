"""Struct and length prefixes."""

import hashlib
import struct


def hash_block(parent_hash, token_ids, extra_keys=()):
    """Return the SHA-256 of a full block: its parent's hash, its tokens, and what else it depends on.

    Chaining makes one hash stand for the whole prefix, so `extra_keys` (tenant salt, adapter id) are
    needed in the first block only, whose parent is `ROOT_HASH`.
    """
    parts = [parent_hash, struct.pack("<I", len(token_ids)), *(struct.pack("<q", t) for t in token_ids)]
    if any(k is not None for k in extra_keys):
        for k in extra_keys:
            data = b"" if k is None else b"=" + k.encode("utf-8")
            parts.append(struct.pack("<I", len(data)) + data)
    return hashlib.sha256(b"".join(parts)).digest()
