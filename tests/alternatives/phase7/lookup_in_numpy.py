"""numpy compares all places at once; numpy integers are returned."""

import numpy as np


def propose_by_lookup(
    token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
) -> list[int]:
    text = np.array(token_ids)
    for length in range(min(prompt_lookup_max, len(text) - 1), prompt_lookup_min - 1, -1):
        windows = np.lib.stride_tricks.sliding_window_view(text[:-1], length)
        found = np.flatnonzero((windows == text[-length:]).all(axis=1))
        if len(found):
            first = int(found[0]) + length
            return list(text[first : first + num_speculative_tokens])
    return []
