"""Slots by a big list of the table."""


def compute_slot_mapping(batch, block_size):
    """Return for each token of the row the slot that its K and V go to [T].

    Slot `b * block_size + i` is place i of block b.
    """
    slots = []
    for row in batch:
        whole = [block * block_size + i for block in row.block_ids for i in range(block_size)]
        slots.extend(whole[row.num_computed_tokens : row.num_computed_tokens + row.num_scheduled_tokens])
    return slots
