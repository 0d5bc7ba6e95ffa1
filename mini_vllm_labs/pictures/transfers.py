"""Draws transfers of K and V step by step: blocks loading, loaded or held until sent, and waiting requests."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.electives.gates.gated import transfers_of
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import MARGIN, NARROW, WIDTHS, Part, headline_part, page
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.text import counted, facts, spaced
from mini_vllm_labs.pictures.tiles import on_tile, tile
from mini_vllm_labs.pictures.typeset import wrap
from mini_vllm_labs.runs.palette import color

ROW, BOX, LABEL, NOTES, GAP = 42, 24, 66, 340, 3
MAX_BLOCKS = (NOTES - LABEL - MARGIN) // BOX
LOADING, LOADED, RUNNING, HELD = "loading", "loaded", "running", "held until sent"


@dataclass(frozen=True)
class TransferStep:
    """The end of a step: the state and block table of each request that holds blocks, in order of arrival.

    `preempted` lists the victims of the step.
    """

    held: Mapping[str, tuple[str, Sequence[int]]]
    preempted: Collection[str] = ()

    @classmethod
    def of(cls, scheduler: Scheduler, arrived: Iterable[Request]) -> "TransferStep":
        """Return the transfers of a scheduler that has a connector, for the requests that have `arrived`."""
        transfers = transfers_of(scheduler)
        assert transfers is not None
        held: dict[str, tuple[str, Sequence[int]]] = {}
        for request in arrived:
            if not (table := list(scheduler.kv.block_ids(request.request_id))):
                continue
            state = HELD if request.request_id in transfers.sending else RUNNING
            if request.status is RequestStatus.WAITING_FOR_REMOTE_KVS:
                state = LOADING if transfers.is_loading(request) else LOADED
            held[request.request_id] = state, table
        return cls(held)

    def names(self, state: str) -> list[str]:
        return [name for name, (its_state, _) in self.held.items() if its_state == state]


def transfers(steps: Sequence[TransferStep], num_blocks: int, width: float = WIDTH) -> Picture:
    """Draw a row of blocks 1 to `num_blocks` for each step, and explain why each request waits or starts.

    Raises `ValueError` for more than `MAX_BLOCKS` blocks.
    """
    if num_blocks > MAX_BLOCKS:
        raise ValueError(f"a picture can show at most {MAX_BLOCKS} blocks, got {num_blocks}")
    names = list(dict.fromkeys(name for step in steps for name in step.held))
    told = ["; ".join(_events(before, now)) for before, now in zip([TransferStep({}), *steps], steps, strict=False)]
    row = ROW if width >= NARROW else ROW + BOX
    rows = [_row(k * row + 4, k, step, names, num_blocks, told[k], width) for k, step in enumerate(steps)]
    events = [f"Step {k}: {text}." for word in ("past", "until sent") for k, text in enumerate(told) if word in text]
    sentence = events[0] if events else "Nothing overtakes."
    blocks = [
        f"{text or 'as before'}. "
        + ", ".join(f"{name} {state} {spaced(ids)}" for name, (state, ids) in step.held.items())
        for text, step in zip(told, steps, strict=True)
    ]
    parts = [
        headline_part("K and V on their way", f"{counted(num_blocks, 'block')}, as each step leaves them", width),
        Part([Layer("steps", svg.joined(rows))], row * len(steps)),
        Part([Layer("signs", _signs(width))], (BOX if width >= NARROW else 2 * BOX) + 12),
    ]
    text = facts((f"step {k}", line) for k, line in enumerate(blocks))
    drawn = page("K and V on their way", parts, sentence, text, width)
    return drawn if width <= WIDTHS[0] else replace(drawn, narrow=transfers(steps, num_blocks, WIDTHS[0]))


def _events(before: TransferStep, now: TransferStep) -> Iterator[str]:
    """Yield the new events of a step, with reasons."""
    order = list(now.held)
    for name, (state, table) in now.held.items():
        earlier, blocks = before.held.get(name, ("", ()))[0], counted(len(table), "block")
        if state == earlier:
            continue
        passed = [one for one in order[: order.index(name)] if one in now.names(LOADING)]
        if state == LOADING:
            yield f"{name} waits for {blocks} to load"
        elif state == LOADED:
            yield f"{name} has its {blocks} and waits for admission"
        elif state == HELD:
            yield f"{name} has ended and holds {blocks} until sent"
        else:
            yield f"{name} is admitted" + f" past {spaced(passed)}" * bool(passed)
    for name, (state, table) in before.held.items():
        if name not in now.held:
            why = "has been sent" if state == HELD else "has ended"
            why = "is preempted" if name in now.preempted else why
            yield f"{name} {why}, which frees {counted(len(table), 'block')}"


def _row(
    y: float, k: int, step: TransferStep, names: Sequence[str], num_blocks: int, told: str, width: float
) -> Markup:
    holders = {block: (name, state) for name, (state, table) in step.held.items() for block in table}
    drawn = [svg.text(MARGIN, y + 16, f"step {k}", class_="mv-strong")]
    for block in range(1, num_blocks + 1):
        name, state = holders.get(block, ("", "free"))
        box = _box(LABEL + (block - 1) * BOX, y, state, names.index(name) if name else 0, name)
        drawn.append(svg.group(svg.tooltip(f"block {block}: {f'{name}, ' * bool(name)}{state}"), box))
    left, top = (NOTES, y + 10) if width >= NARROW else (LABEL, y + BOX + 12)
    lines = wrap(told or "as before", width - left - MARGIN, 12, 2)
    drawn += [svg.text(left, top + 15 * place, line) for place, line in enumerate(lines)]
    return svg.joined(drawn)


def _box(x: float, y: float, state: str, index: int, name: str) -> Markup:
    size = BOX - GAP
    if state in (LOADING, "free"):
        look: dict[str, svg.Value] = {"class_": "mv-panel"} if state == "free" else {}
        frame = svg.rect(x + 1, y + 1, size - 2, size - 2, fill="none", stroke=color(index), stroke_width=2)
        inside = svg.text(x + size / 2, y + 15, name, class_="mv-middle mv-strong")
        return svg.rect(x, y, size, size, **look) if look else svg.joined([frame, inside])
    shape = tile(index, "" if state == HELD else name, x, y, size, size, hatched=state == LOADED)
    if state != HELD:
        return shape
    frame = svg.rect(x + 1, y + 1, size - 2, size - 2, class_="mv-line", stroke_width=2, stroke_dasharray="4 2")
    return svg.joined([shape, frame, on_tile(index, x + size / 2, y + 15, name)])


def _signs(width: float) -> Markup:
    drawn, columns = [], 5 if width >= NARROW else 3
    for place, state in enumerate(("free", LOADING, LOADED, RUNNING, HELD)):
        x, y = LABEL + 110 * (place % columns), 4 + BOX * (place // columns)
        drawn += [_box(x, y, state, 1, ""), svg.text(x + BOX + 2, y + 15, state, class_="mv-faint")]
    return svg.joined(drawn)
