"""Write by advanced indexing."""


def write_kv(key, value, key_cache, value_cache, slot_mapping):
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place.

    The caches are [blocks, block_size, kv_heads, head_dim]; `slot_mapping` is [T].
    """
    size = key_cache.shape[1]
    key_cache[slot_mapping // size, slot_mapping % size] = key
    value_cache.view(-1, *value_cache.shape[2:])[slot_mapping] = value
