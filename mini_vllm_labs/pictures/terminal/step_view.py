"""Draws one step; a pure function turns a `RunState` into a rich renderable.

A request has the same letter and colour everywhere. Information is never conveyed by colour alone.
"""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.pictures.terminal.console import chip_style, ink_style
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.runs.traces.sentences import describe_step

HATCH, ROOM = "░", "·"
SHARED = Style(reverse=True, bold=True)
FAINT = Style(dim=True)
STRONG = Style(bold=True)
CELL_WIDTH = 3
MAX_CELLS = 96


def render_step(state: RunState, width: int = 80, heading: str = "mini-vLLM") -> RenderableType:
    """Draw the state's current step, `width` columns wide."""
    return Group(
        headline(state, heading),
        budget_bar(state, width),
        Text(),
        request_table(state, width),
        queues(state),
        Text(),
        *block_map(state, width),
        counters(state),
        Text(),
        Text.assemble(
            ("→ ", STRONG), (describe_step(state), STRONG if state.record and state.record["preempted"] else "")
        ),
    )


def headline(state: RunState, heading: str) -> Text:
    """Return the top line: the step, and the numbers of running, waiting and finished requests."""
    record = state.record
    if record is None:
        return Text(heading, STRONG)
    counts = f"{len(record['running_after'])} running, {len(record['waiting_after'])} waiting"
    return Text.assemble(
        (heading, STRONG), (f"   step {record['step']}", STRONG), f"   {counts}, ", f"{len(state.finished)} done"
    )


def chip(state: RunState, request_id: str) -> Text:
    return Text(f" {state.info.label(request_id)} ", chip_style(state.info.index(request_id)))


def budget_bar(state: RunState, width: int) -> Text:
    """Draw each request's share of the token budget: decodes solid, prefills hatched, unused tokens dotted."""
    assert state.record is not None
    budget, total = state.info.token_budget, state.record["total"]
    figure = f" {total}/{budget} tokens"
    length = min(max(10, width - len("budget ") - len(figure) - 1), budget)
    cells: list[tuple[str, Style]] = [(ROOM, FAINT)] * length
    spent, first_free = 0, 0
    for share in state.record["scheduled"]:
        spent += share["n"]
        end = min(length, max(first_free + 1, spent * length // budget))  # every share must stay visible
        index, letter = state.info.index(share["id"]), state.info.label(share["id"])
        solid = state.is_decode(share)
        for place in range(first_free, end):
            mark = letter[-1] if place == first_free else " " if solid else HATCH
            cells[place] = (mark, chip_style(index))
        first_free = end
    return Text.assemble(("budget ", STRONG), *cells, figure)


def request_table(state: RunState, width: int) -> Table:
    """Return a table with each request's share of this step, its computed tokens, and the end of its text."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=FAINT, pad_edge=False, show_edge=False)
    table.add_column("", width=3)
    table.add_column("state", width=9)
    table.add_column("step", width=4, justify="right")
    table.add_column("hit", width=4, justify="right")
    table.add_column("computed", width=9, justify="right")
    table.add_column("text", no_wrap=True)
    room = max(10, width - 36)
    shares = {share["id"]: share for share in state.record["scheduled"]} if state.record else {}
    for request_id in state.info.titles:
        status, share = state.status(request_id), shares.get(request_id)
        hit, known = share.get("hit", 0) if share else 0, state.num_known.get(request_id, 0)
        table.add_row(
            chip(state, request_id),
            Text(status, STRONG if status == "preempted" else FAINT if status in ("done", "waiting") else ""),
            f"+{share['n']}" if share else "",
            str(hit) if hit else "",
            f"{min(state.computed.get(request_id, 0), known)}/{known}",
            shown_text(state, request_id, room),
        )
    return table


def shown_text(state: RunState, request_id: str, room: int) -> Text:
    """Return the end of a request's text, or its question in faint type if there is no text yet."""
    text = " ".join(state.texts.get(request_id, "").split())
    if not text:
        question = state.info.titles[request_id]
        return Text(question if len(question) <= room else question[: room - 1] + "…", FAINT)
    return Text(text if len(text) <= room else "…" + text[len(text) - room + 1 :])


def queues(state: RunState) -> Text:
    """Return both queues as letters, with the next request first."""
    assert state.record is not None
    running = [chip(state, request_id) for request_id, *_ in state.record["running_after"]]
    waiting = [chip(state, request_id) for request_id in state.record["waiting_after"]]
    none = [Text("none", FAINT)]
    return Text.assemble(("running ", STRONG), *(running or none), ("   waiting ", STRONG), *(waiting or none))


def block_map(state: RunState, width: int) -> list[Text]:
    """Draw the pool as rows of cells, with the legend.

    In a pool of more than 96 blocks, a cell represents several blocks and shows the state of the first.
    """
    per_cell = cdiv(state.info.num_blocks, MAX_CELLS)
    cells = list(block_cells(state, range(1, state.info.num_blocks + 1, per_cell)))
    fitting = max(1, (width - len("blocks ")) // CELL_WIDTH)
    per_row = cdiv(len(cells), cdiv(len(cells), fitting))
    rows = []
    for first in range(0, len(cells), per_row):
        row = Text(f"{state.info.unit}s ".ljust(len("blocks ")) if first == 0 else "       ", STRONG)
        for cell in cells[first : first + per_row]:
            row.append_text(cell).append(" ")
        rows.append(row)
    legend = "       A held   A+ taken now   A3 shared by 3   ▌a free, content kept   · free"
    return [*rows, Text(legend + (f"   ({per_cell} {state.info.unit}s per cell)" if per_cell > 1 else ""), FAINT)]


def block_cells(state: RunState, block_ids: Iterable[int]) -> Iterator[Text]:
    assert state.record is not None
    holders, cached = state.holders(), state.cached()
    taken = {block for share in state.record["scheduled"] for block in share["new_blocks"]}
    for block_id in block_ids:
        held_by = holders.get(block_id, [])
        owner = held_by[0] if held_by else state.remembered.get(block_id)
        if len(held_by) > 1:
            # there is room for only one digit
            yield Text(f"{state.info.label(held_by[0])[-1]}{min(len(held_by), 9)}", SHARED)
        elif held_by:
            mark = "+" if block_id in taken else " "
            yield Text(state.info.label(held_by[0])[-1] + mark, chip_style(state.info.index(held_by[0])))
        elif owner is not None and block_id in cached:
            letter = state.info.label(owner)[-1].lower()
            yield Text.assemble(("▌", ink_style(state.info.index(owner))), (letter, FAINT))
        else:
            yield Text(f" {ROOM}", FAINT)


def counters(state: RunState) -> Text:
    assert state.record is not None
    free, held = state.record["free_after_schedule"], set(state.holders())
    kept = len(state.cached() - held)
    figures = [
        f"free {free}/{state.info.num_blocks} ({kept} kept)",
        f"hits {state.num_hits} ({state.num_hit_tokens} tokens, {state.hit_rate:.0%})",
        f"preemptions {state.num_preemptions}",
    ]
    return Text("   ".join(figures))
