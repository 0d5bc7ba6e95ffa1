"""Requests put together by their lengths: everybody once, nothing of the context lost, little padding."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.model.groups import group_requests

BLOCK_SIZE = 4
REQUESTS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 200)), min_size=1, max_size=24)


@given(REQUESTS)
def test_every_token_stands_in_one_group_with_its_whole_context(requests: list[tuple[int, int]]) -> None:
    query_lens = [new for new, _ in requests]
    seq_lens = torch.tensor([new + old for new, old in requests])
    longest = int((-(-seq_lens // BLOCK_SIZE)).max())
    tables = torch.arange(1, len(requests) * longest + 1).view(len(requests), longest)
    owner = torch.arange(len(requests)).repeat_interleave(torch.tensor(query_lens))
    seen: list[int] = []
    for group in group_requests(query_lens, seq_lens, tables, BLOCK_SIZE):
        for rows, blocks in zip(group.rows, group.block_tables, strict=True):
            request = int(owner[rows[0]])
            assert set(owner[rows].tolist()) == {request}
            assert blocks.tolist() == tables[request, : len(blocks)].tolist()
            assert len(blocks) * BLOCK_SIZE >= seq_lens[request]
            assert len(rows) < 2 * query_lens[request]
            assert len(blocks) < 2 * -(-int(seq_lens[request]) // BLOCK_SIZE)
            seen += sorted(set(rows.tolist()))
    assert sorted(seen) == list(range(sum(query_lens)))


def test_decodes_of_similar_lengths_share_a_group() -> None:
    groups = group_requests([1] * 32, torch.arange(33, 65), torch.ones(32, 16, dtype=torch.int64), BLOCK_SIZE)
    assert [tuple(group.rows.shape) for group in groups] == [(32, 1)]


def test_no_requests_no_groups() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    assert group_requests([], nothing, nothing.view(0, 0), BLOCK_SIZE) == []
