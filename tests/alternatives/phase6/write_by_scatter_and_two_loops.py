"""Write by scatter and two loops."""


def write_kv(key, value, key_cache, value_cache, slot_mapping):
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place.

    The caches are [blocks, block_size, kv_heads, head_dim]; `slot_mapping` is [T].
    """
    for cache, new in ((key_cache, key), (value_cache, value)):
        flat = cache.view(cache.shape[0] * cache.shape[1], -1)
        flat.scatter_(0, slot_mapping[:, None].expand(-1, flat.shape[1]), new.reshape(len(slot_mapping), -1))
