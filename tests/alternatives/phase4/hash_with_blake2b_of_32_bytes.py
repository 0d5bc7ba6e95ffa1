"""The hash is blake2b over each token and each key with its length."""

import hashlib


def hash_block(parent_hash, token_ids, extra_keys=()):
    hasher = hashlib.blake2b(digest_size=32)
    hasher.update(parent_hash)
    for token in token_ids:
        hasher.update(int(token).to_bytes(8, "little", signed=True))
    for key in extra_keys:
        if key is not None:
            hasher.update(b"\x01" + len(key.encode()).to_bytes(8, "big") + key.encode())
        elif any(k is not None for k in extra_keys):
            hasher.update(b"\x00")
    return hasher.digest()
