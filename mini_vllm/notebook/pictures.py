"""Pictures of what a lab ran. A `Notice` in place of a run is passed on, so a cell never ends in an error."""

from typing import TYPE_CHECKING

from mini_vllm.notebook.jobs import Played, Spoken
from mini_vllm.notebook.notice import Notice, show
from mini_vllm.views.show import player
from mini_vllm.views.time_machine import compare as compare_recordings
from mini_vllm.views.time_machine import time_machine

if TYPE_CHECKING:
    from mini_vllm.views.widgets import Player


def watch(run: Played | Spoken | Notice, step: int = 0) -> "Player | Notice":
    """Return the time machine over a run, at one of its steps."""
    picture: Player | Notice = show(lambda run: player(time_machine(run.recording), step), run)
    return picture


def compare(
    first: Played | Spoken | Notice, second: Played | Spoken | Notice, names: tuple[str, str], step: int = 0
) -> "Player | Notice":
    """Return two runs of one workload, one below the other, with the first difference marked."""
    picture: Player | Notice = show(
        lambda one, other: player(compare_recordings(one.recording, other.recording, names), step), first, second
    )
    return picture


def same_answers(first: Played | Spoken | Notice, second: Played | Spoken | Notice) -> str | Notice:
    """Return in words whether two runs on the toy model said the same tokens."""
    words: str | Notice = show(_in_words, first, second)
    return words


def _in_words(first: Played, second: Played) -> str:
    different = [name for name, said in first.token_ids.items() if said != second.token_ids.get(name)]
    if not different:
        return f"All {len(first.token_ids)} requests said the same tokens in both runs."
    return f"DIFFERENT answers of {', '.join(different)}: that must never happen."
