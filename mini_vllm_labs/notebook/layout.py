"""Shows phase 6's layout of a step: all tokens in one row, with the slots of K and V."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.fresh.jobs import ChatRun
from mini_vllm_labs.notebook.recorded_mark import marked_html, marked_text
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.paged_batch import paged_batch
from mini_vllm_labs.pictures.paged_batch.flat_step import FlatStep, by_functions

HEADINGS = ("row", "request", "token", "position", "slot", "block", "place", "logits")


@dataclass(frozen=True)
class Layout:
    """One line per token in the step, and the padded block tables; `recorded` is as in `ChatRun`."""

    rows: Sequence[Sequence[str]]
    block_tables: Sequence[tuple[str, Sequence[int]]]
    recorded: str = ""

    def __repr__(self) -> str:
        table = [HEADINGS, *self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        return marked_text("\n".join([*lines, "", *self.table_lines()]), self.recorded)

    @property
    def with_logits(self) -> list[int]:
        """The rows whose logits are needed."""
        return [int(row[0]) for row in self.rows if row[-1]]

    def rows_of(self, request: str) -> list[Sequence[str]]:
        return [row for row in self.rows if row[1] == request]

    def first_slot(self, request: str) -> int:
        return int(self.rows_of(request)[0][4])

    def num_read(self, request: str, place: int) -> int:
        """Return how many slots a request's row reads: one for each position up to and including the row's own."""
        return int(self.rows_of(request)[place][3]) + 1

    def table_lines(self) -> list[str]:
        return [f"block table of {label}: {list(blocks)}" for label, blocks in self.block_tables]

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        head = "".join(f'<th scope="col">{heading}</th>' for heading in HEADINGS)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        tables = "<br>".join(self.table_lines())
        page = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{tables}</p>"
        return {"text/html": marked_html(page, self.recorded), "text/plain": repr(self)}


def lay_out(chats: ChatRun, step: int, lineup: Lineup) -> Layout:
    """Lay out a step of a run with the lineup's phase 6. Raises `ValueError` if the run has no such step."""
    batch, block_size = batch_of(chats, step), chats.recording.info.block_size
    phase6 = runner_steps_for(lineup.runner)
    token_ids, positions, query_start_loc = phase6.flatten_tokens(batch)
    slots = phase6.compute_slot_mapping(batch, block_size)
    with_logits = set(phase6.select_logits_rows(batch))
    owners = [chats.recording.info.label(row.request.request_id) for row in batch]
    rows = []
    for request, (first, end) in enumerate(pairwise(query_start_loc)):
        for row in range(first, end):
            block, place = divmod(slots[row], block_size)
            numbers = [str(positions[row]), str(slots[row]), str(block), str(place)]
            text = chats.texts.get(token_ids[row])
            shown = repr(text) if text else f"token {token_ids[row]}"
            rows.append([str(row), owners[request], shown, *numbers, "yes" if row in with_logits else ""])
    return Layout(rows, list(zip(owners, phase6.pad_block_tables(batch, block_size), strict=True)))


def number_batch(chats: ChatRun, step: int, lineup: Lineup) -> FlatStep:
    """Compute the arrays of a step with the lineup's phase 6. Raises the same errors as `lay_out`."""
    return by_functions(batch_of(chats, step), chats.recording.info.block_size, runner_steps_for(lineup.runner))


def film_of_batch(chats: ChatRun, step: int, arrays: FlatStep) -> Film:
    """Draw a step of a run token by token, with the numbers that `number_batch` computed."""
    return paged_batch(batch_of(chats, step), chats.recording.info.block_size, functions=ReplayedPhase6(arrays))


@dataclass(frozen=True)
class ReplayedPhase6:
    """Stand in for phase 6's functions and return the arrays from an earlier call."""

    arrays: FlatStep

    def flatten_tokens(self, batch: object) -> tuple[list[int], list[int], list[int]]:
        return list(self.arrays.input_ids), list(self.arrays.positions), list(self.arrays.query_start_loc)

    def compute_slot_mapping(self, batch: object, block_size: int) -> list[int]:
        return list(self.arrays.slot_mapping)

    def pad_block_tables(self, batch: object, block_size: int) -> list[list[int]]:
        return [list(table) for table in self.arrays.block_tables]

    def select_logits_rows(self, batch: object) -> list[int]:
        return list(self.arrays.logits_rows)


def batch_of(chats: ChatRun, step: int) -> list[ScheduledRequest]:
    """Rebuild the runner's input for a step from the recording. Raises `ValueError` if the run has no such step."""
    if not 0 <= step < len(chats.recording.steps):
        raise ValueError(f"step must be from 0 to {len(chats.recording.steps) - 1}, got {step}")
    outputs = {output.request_id: output for output in chats.outputs.values()}
    record = chats.recording.steps[step]
    batch = []
    for share in record["scheduled"]:
        output, end = outputs[share["id"]], share["computed"] + share["n"]
        request = Request(share["id"], output.prompt_token_ids)
        request.all_token_ids += output.outputs[0].token_ids
        samples = share["id"] in record["sampled"]
        batch.append(ScheduledRequest(request, share["computed"], end - share["computed"], share["blocks"], samples))
    return batch
