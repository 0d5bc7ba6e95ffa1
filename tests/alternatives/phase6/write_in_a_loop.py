"""Write in a loop."""


def write_kv(key, value, key_cache, value_cache, slot_mapping):
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place.

    The caches are [blocks, block_size, kv_heads, head_dim]; `slot_mapping` is [T].
    """
    size = key_cache.size(1)
    for token, slot in enumerate(slot_mapping.tolist()):
        block, place = divmod(slot, size)
        key_cache[block, place] = key[token]
        value_cache[block, place].copy_(value[token])
