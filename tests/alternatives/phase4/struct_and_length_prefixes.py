"""Tokens and keys are packed with their lengths."""

import hashlib
import struct


def hash_block(parent_hash, token_ids, extra_keys=()):
    parts = [parent_hash, struct.pack("<I", len(token_ids)), *(struct.pack("<q", t) for t in token_ids)]
    if any(k is not None for k in extra_keys):
        for k in extra_keys:
            data = b"" if k is None else b"=" + k.encode("utf-8")
            parts.append(struct.pack("<I", len(data)) + data)
    return hashlib.sha256(b"".join(parts)).digest()
