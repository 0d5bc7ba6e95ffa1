"""Grouping by length: every token is in one group with its whole context, and there is little padding."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.groups import MAX_GROUP_SLOTS, MAX_PIECE_QUERIES, MAX_WASTED_PAIRS, RequestGroup, group_requests

BLOCK_SIZE = 4
REQUESTS = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 200)), min_size=1, max_size=24)
DECODES = st.lists(st.tuples(st.just(1), st.integers(0, 2000)), min_size=1, max_size=64)


def groups_of(requests: list[tuple[int, int]]) -> tuple[list[RequestGroup], torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the groups for requests given as (new, old) tokens, each row's owner and position, and the block
    tables."""
    seq_lens = [new + old for new, old in requests]
    longest = cdiv(max(seq_lens), BLOCK_SIZE)
    tables = torch.arange(1, len(requests) * longest + 1).view(len(requests), longest)
    query_lens = [new for new, _ in requests]
    owner = torch.arange(len(requests)).repeat_interleave(torch.tensor(query_lens))
    positions = torch.cat([torch.arange(old, old + new) for new, old in requests])
    return group_requests(query_lens, seq_lens, tables, positions, BLOCK_SIZE), owner, positions, tables


@given(REQUESTS | DECODES)
def test_every_token_stands_in_one_group_and_sees_its_whole_context(requests: list[tuple[int, int]]) -> None:
    groups, owner, positions, tables = groups_of(requests)
    seen: list[int] = []
    for group in groups:
        slots = torch.arange(group.block_tables.shape[1] * BLOCK_SIZE)
        for rows, blocks, mask in zip(group.rows, group.block_tables, group.mask, strict=True):
            request = int(owner[rows[0]])
            assert set(owner[rows].tolist()) == {request}
            assert blocks.tolist() == tables[request, : len(blocks)].tolist()
            assert int(positions[rows].max()) < len(slots)
            assert torch.equal(mask[0] == 0, slots <= positions[rows][:, None])
            assert set(mask.unique().tolist()) <= {0.0, -torch.inf}
            seen += sorted(set(rows.tolist()))
    assert sorted(seen) == list(range(len(owner)))


@given(REQUESTS | DECODES)
def test_a_group_wastes_little_and_copies_little(requests: list[tuple[int, int]]) -> None:
    groups, _, positions, _ = groups_of(requests)
    for group in groups:
        num_members, num_queries = group.rows.shape
        num_slots = group.block_tables.shape[1] * BLOCK_SIZE
        assert num_queries <= MAX_PIECE_QUERIES
        assert num_members == 1 or num_members * num_slots <= MAX_GROUP_SLOTS
        needed = 0
        for rows in group.rows:
            own = rows.unique()
            needed += len(own) * cdiv(int(positions[own].max() + 1), BLOCK_SIZE) * BLOCK_SIZE
        assert num_members * num_queries * num_slots - needed <= MAX_WASTED_PAIRS


def test_decodes_of_similar_lengths_share_a_group_and_one_long_request_stays_alone() -> None:
    groups, *_ = groups_of([(1, length) for length in range(49, 65)] + [(1, 1500)])
    assert [tuple(group.rows.shape) for group in groups] == [(1, 1), (16, 1)]


def test_the_first_tokens_of_a_long_chunk_do_not_look_at_its_last_blocks() -> None:
    groups, *_ = groups_of([(2 * MAX_PIECE_QUERIES + 8, 0)])
    found = sorted((group.rows.shape[1], group.block_tables.shape[1] * BLOCK_SIZE) for group in groups)
    size = MAX_PIECE_QUERIES
    assert found == [(8, 2 * size + 8), (size, size), (size, 2 * size)]


def test_no_requests_give_no_groups() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    assert group_requests([], [], nothing.view(0, 0), nothing, BLOCK_SIZE) == []
