"""Positions memory slots, at the same scale for blocks of any size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.pictures.parts import span_of
from mini_vllm_labs.pictures.picture import WIDTH
from mini_vllm_labs.runs.traces.recording import Recording

MAX_CELL, MAX_LINES, MAX_HEIGHT, MAX_STRIPS = 16, 2, 190, 600
CELLS = (24, 20, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2.5, 2, 1.5, 1, 0.75, 0.5)
HIGHS = (20, 12, 8)
NAME, MIN_NAMED = 14, 24
USUAL_ROOM = span_of(WIDTH)


@dataclass(frozen=True)
class Shelf:
    """The positions of the first `num_slots` slots: `cell` px per slot, `size` per strip, `per_line` strips per line.

    Two runs on the same shelf show the same memory at the same size, regardless of their block sizes.
    """

    size: int
    num_slots: int
    cell: float
    high: float
    per_line: int

    @classmethod
    def fitting(cls, runs: Sequence[Recording], room: float, most_lines: int = MAX_LINES) -> Self:
        """Return the shelf with the largest strips that fits all memory that any run uses, with at least one line.

        The strips do not grow if `room` is wider than usual, so that a film stores them once for both widths.
        """
        if room > USUAL_ROOM:
            return cls.fitting(runs, USUAL_ROOM, most_lines).widened(room)
        size, num_used = max(run.info.block_size for run in runs), max(map(num_used_slots, runs))
        num_slots = max(run.info.num_blocks * run.info.block_size for run in runs)
        return cls.holding(size, num_slots, num_used, room, most_lines)

    @classmethod
    def holding(
        cls, size: int, num_slots: int, num_used: int, room: float, most_lines: int, most_cell: float = MAX_CELL
    ) -> Self:
        """Return the shelf with the largest strips, at most `most_cell` px per slot, on which `num_used` slots fit."""
        for high in HIGHS:
            for cell in (cell for cell in CELLS if cell <= most_cell):
                gap = gap_between(size, cell)
                shelf = cls(size, num_slots, cell, high, max(1, int((room + gap) // (cell * size + gap))))
                lines = cdiv(cdiv(num_used, size), shelf.per_line)
                is_low = lines <= most_lines if high == HIGHS[0] else lines * shelf.line <= MAX_HEIGHT
                if is_low and cell * size <= room:
                    return shelf.cut_to(lines)
        return shelf.cut_to(int(MAX_HEIGHT // shelf.line))

    def widened(self, room: float) -> Self:
        """Return the shelf rewrapped to longer lines, so that the same slots take up as few lines as possible."""
        gap = gap_between(self.size, self.cell)
        return replace(self, per_line=int((room + gap) // (self.cell * self.size + gap)))

    def cut_to(self, lines: int) -> Self:
        strips = min(max(1, lines) * self.per_line, max(self.per_line, MAX_STRIPS))
        return replace(self, num_slots=min(self.num_slots, strips * self.size))

    @property
    def named(self) -> bool:
        return self.size > 1 and self.cell * self.size >= MIN_NAMED

    @property
    def line(self) -> float:
        """The height of a line, including the space below it."""
        return self.high + (NAME + 5 if self.named else 4)

    @property
    def height(self) -> float:
        return cdiv(cdiv(self.num_slots, self.size), self.per_line) * self.line

    def place(self, slot: int) -> tuple[float, float]:
        """Return the upper left corner of a slot; slots count from 0, excluding the null block's."""
        strip, offset = divmod(slot, self.size)
        width = self.cell * self.size + gap_between(self.size, self.cell)
        return strip % self.per_line * width + offset * self.cell, strip // self.per_line * self.line

    def blocks(self, block_size: int, num_blocks: int) -> range:
        return range(1, min(num_blocks, self.num_slots // block_size) + 1)


def gap_between(size: int, cell: float) -> float:
    """Return the space between two strips, or 0 if blocks are single slots."""
    return 0 if size == 1 else max(2.0, min(5.0, cell))


def num_used_slots(run: Recording) -> int:
    """Return the number of slots up to the last slot that the run ever holds."""
    held = (block for record in run.steps for share in record["scheduled"] for block in share["blocks"])
    return max(held, default=0) * run.info.block_size
