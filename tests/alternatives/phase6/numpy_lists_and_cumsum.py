"""Numpy lists and cumsum."""

import numpy as np


def flatten_tokens(batch):
    """Return the step's tokens in one row: (input_ids [T], positions [T], query_start_loc [R + 1]).

    A position counts from the request's first token, not from the row's. Request i has the tokens
    `query_start_loc[i]` to `query_start_loc[i + 1] - 1` of the row.
    """
    lens = np.array([r.num_scheduled_tokens for r in batch], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lens)]).astype(np.int64)
    positions = np.concatenate(
        [np.arange(r.num_computed_tokens, r.num_computed_tokens + r.num_scheduled_tokens) for r in batch]
    )
    ids = np.concatenate(
        [np.asarray(r.request.all_token_ids)[r.num_computed_tokens :][: r.num_scheduled_tokens] for r in batch]
    )
    return ids.tolist(), positions.tolist(), starts.tolist()
