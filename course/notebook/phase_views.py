"""What a notebook draws with the phases themselves: hash chains, the layout of a step, the ablation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from course.fresh.jobs import ChatRun, run_ablation
from course.notebook.ablation_charts import ablation_charts
from course.notebook.chain import draw_hash_blocks, hash_blocks
from course.notebook.charts import Charts
from course.notebook.layout import Layout, film_of_batch, lay_out, number_batch
from course.notebook.missing import mark_for
from course.notebook.notice import Notice
from course.notebook.phase_code import PhaseCode
from course.notebook.recorded_mark import marked_film, marked_picture
from course.views.picture import Picture
from course.views.show import player
from course.workloads.ablation import ablation_lineups

if TYPE_CHECKING:
    from course.views.widgets import Player


def chain_picture(
    code: PhaseCode, prompts: Mapping[str, Sequence[int]], block_size: int, salts: Mapping[str, str]
) -> Picture | Notice:
    """Draw the chained hashes of consecutive prompts, and the hits of phase 4's cache for each."""
    lineup = code.lineup()
    answers = code.call(lineup, hash_blocks, prompts, block_size, salts, lineup)
    if isinstance(answers, Notice):
        return answers
    return marked_picture(draw_hash_blocks(prompts, block_size, salts, answers), mark_for(lineup))


def step_layout(code: PhaseCode, chats: ChatRun, step: int) -> Layout | Notice:
    """Lay out a step of a run with phase 6's functions: tokens, positions, slots."""
    lineup = code.lineup()
    layout = code.call(lineup, lay_out, chats, step, lineup)
    return replace(layout, recorded=mark_for(lineup)) if isinstance(layout, Layout) else layout


def batch_player(code: PhaseCode, chats: ChatRun, step: int, row: int) -> "Player | Notice":
    """Play a step token by token from a `row` on, in the numbers of phase 6's functions."""
    lineup = code.lineup()
    arrays = code.call(lineup, number_batch, chats, step, lineup)
    if isinstance(arrays, Notice):
        return arrays
    return player(marked_film(film_of_batch(chats, step, arrays), mark_for(lineup)), row)


def ablation(code: PhaseCode) -> Charts | Notice:
    """Serve the workload of `mini-vllm stages` in simulated time with phase 1, then 1 to 2, and so on."""
    lineups = ablation_lineups(code.lineup(), min(5, code.phase))
    stages = code.call(lineups[-1], run_ablation, lineups)
    return stages if isinstance(stages, Notice) else ablation_charts(stages, lineups, mark_for(lineups[-1]))
