"""The same step in plain text: every fact that the picture shows."""

from collections.abc import Iterable, Sequence

from course.traces.run_state import RunState
from course.traces.sentences import describe_step
from course.views.time_machine.history import Histories


def headline(state: RunState, num_steps: int) -> str:
    """Return which step it is and how the run stands."""
    record = state.record
    assert record is not None
    return f"step {record['step']} of {num_steps - 1}"


def counts(state: RunState) -> str:
    """Return how many requests are where, and the counters so far."""
    record = state.record
    assert record is not None
    parts = [f"{len(record['running_after'])} running", f"{len(record['waiting_after'])} waiting"]
    parts += [f"{len(state.finished)} done", f"{state.num_hit_tokens} tokens from the cache"]
    return " · ".join([*parts, f"{state.num_preemptions} preemption{'s' * (state.num_preemptions != 1)}"])


def twin(state: RunState, histories: Histories, num_steps: int) -> str:
    """Return the step as lines of text."""
    assert state.record is not None
    record, info, free = state.record, state.info, state.pool.free_queue
    names = [info.label(request_id) for request_id, *_ in record["running_after"]]
    lines = [
        f"{headline(state, num_steps)}: {counts(state)}",
        f"what happened: {describe_step(state)}",
        f"token budget: {record['total']} of {info.token_budget}: {shares(state) or 'nobody'}",
        f"running: {' '.join(names) or 'nobody'}",
        f"waiting: {' '.join(map(info.label, record['waiting_after'])) or 'nobody'}",
        *tables(state),
        f"shared blocks: {shared(state) or 'none'}",
        f"just taken: {ranges(state.pool.taken) or 'none'}",
        f"old content lost: {ranges(record['evicted']) or 'none'}",
        f"free, content kept: {ranges(sorted(state.cached() - set(state.holders()))) or 'none'}",
        f"given back: {'; '.join(f'{info.label(i)} {ranges(b)}' for i, b in state.pool.freed if b) or 'none'}",
        f"free queue, next first: {ranges(free) or 'empty'}",
        *requests(state, histories),
    ]
    return "\n".join(lines)


def shares(state: RunState) -> str:
    """Return who got how many tokens, and what for."""
    assert state.record is not None
    return ", ".join(
        f"{state.info.label(share['id'])} {share['n']} {'decode' if state.is_decode(share) else 'prefill'}"
        for share in state.record["scheduled"]
    )


def tables(state: RunState) -> list[str]:
    """Return a line for each block table, as it was while the step was computed."""
    held = {request_id: blocks for request_id, blocks in state.tables.items() if blocks}
    return [f"blocks of {state.info.label(i)}: {ranges(held[i])}" for i in state.info.titles if i in held]


def shared(state: RunState) -> str:
    """Return the blocks with several holders."""
    several = {block: holders for block, holders in state.holders().items() if len(holders) > 1}
    return ", ".join(f"{block} ({' '.join(map(state.info.label, several[block]))})" for block in sorted(several))


def requests(state: RunState, histories: Histories) -> list[str]:
    """Return a line for each request that has arrived."""
    assert state.record is not None
    lines = []
    for request_id, history in histories.of.items():
        if not history.spans or history.spans[0].first > state.record["step"]:
            continue
        computed, known = state.computed.get(request_id, 0), state.num_tokens(request_id)
        past = history.words(state.record["step"])
        line = f"{state.info.label(request_id)}: {state.status(request_id)}, {computed} of {known} tokens computed"
        lines.append(line + (f", {past}" if past else ""))
    return lines


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers in their order, runs that go up by one as `first-last`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return " ".join(shown(run) for run in runs)


def shown(run: Sequence[int]) -> str:
    """Return one run of numbers: two of them are still a pair."""
    first, last = run[0], run[-1]
    return f"{first}" if first == last else f"{first} {last}" if last == first + 1 else f"{first}-{last}"
