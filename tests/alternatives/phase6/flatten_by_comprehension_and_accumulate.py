"""Flatten by comprehension and accumulate."""

from itertools import accumulate, chain


def flatten_tokens(batch):
    """Return the step's tokens in one row: (input_ids [T], positions [T], query_start_loc [R + 1]).

    A position counts from the request's first token, not from the row's. Request i has the tokens
    `query_start_loc[i]` to `query_start_loc[i + 1] - 1` of the row.
    """
    spans = [range(r.num_computed_tokens, r.num_computed_tokens + r.num_scheduled_tokens) for r in batch]
    ids = [r.request.all_token_ids[p] for r, s in zip(batch, spans, strict=False) for p in s]
    return ids, list(chain(*spans)), list(accumulate((len(s) for s in spans), initial=0))
