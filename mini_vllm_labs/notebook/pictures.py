"""Draws a lab's runs. If given a `Notice` instead of a run, each function returns it unchanged, so that cells never
fail."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mini_vllm.outputs import RequestOutput
from mini_vllm_labs.fresh.jobs import ChatRun, WorkloadRun
from mini_vllm_labs.notebook.notice import Notice, Words, show
from mini_vllm_labs.notebook.recorded_mark import first_mark, marked_film, marked_picture
from mini_vllm_labs.pictures.block_life import block_life
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import compare as compare_recordings
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.pictures.transfers import HELD, RUNNING, TransferStep, transfers
from mini_vllm_labs.runs.traces.recording import Recording

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.widgets import Player


class HasRecording(Protocol):
    """A run that has a recording, such as `WorkloadRun` or `ChatRun`."""

    @property
    def recording(self) -> Recording: ...


def watch(run: HasRecording | Notice, step: int = 0, scale: str = "steps") -> "Player | Notice":
    """Return a run's time machine at one of its steps; on the scale `time`, widths are proportional to tokens."""

    def draw(run: HasRecording) -> "Player":
        return player(marked_film(time_machine(run.recording), first_mark([run])), step, scale=scale)

    return show(draw, run)


def watch_blocks(run: WorkloadRun | ChatRun | Notice, step: int = 0, blocks: Sequence[int] = ()) -> "Player | Notice":
    """Show the free queue and the lifetimes of `blocks` (default: the busiest) at one of the run's steps."""
    return show(lambda run: player(marked_film(block_life(run.recording, blocks), first_mark([run])), step), run)


def draw_transfers(run: WorkloadRun | Notice) -> Picture | Notice:
    """Draw the blocks that each request holds at the end of each step, including those held until they are sent."""

    def draw(run: WorkloadRun) -> Picture:
        steps, held = list[TransferStep](), dict[str, tuple[str, Sequence[int]]]()
        sent = {name for record in run.recording.steps for name in record["finished_sent"]}
        for record in run.recording.steps:
            victims = [victim for victim, *_ in record["preempted"]]
            for name in (*record["finished_sent"], *victims):
                held.pop(name, None)
            held |= {share["id"]: (RUNNING, share["blocks"]) for share in record["scheduled"]}
            for name, *_ in record["finished"]:
                _, blocks = held.pop(name, ("", ()))
                held |= {name: (HELD, blocks)} if name in sent else {}
            steps.append(TransferStep(dict(held), victims))
        return marked_picture(transfers(steps, run.recording.info.num_blocks), first_mark([run]))

    return show(draw, run)


def compare(
    first: WorkloadRun | ChatRun | Notice,
    second: WorkloadRun | ChatRun | Notice,
    names: tuple[str, str],
    step: int = 0,
    scale: str = "steps",
) -> "Player | Notice":
    """Show two runs of one workload together, with the first difference marked; `scale` is as in `watch`."""

    def draw(one: WorkloadRun | ChatRun, other: WorkloadRun | ChatRun) -> "Player":
        film = compare_recordings(one.recording, other.recording, names)
        return player(marked_film(film, first_mark([one, other])), step, scale=scale)

    return show(draw, first, second)


def answers(*runs: ChatRun | Notice) -> Words | Notice:
    """Return each question in the runs with its answer and the time between tokens."""
    return show(_questions_and_answers, *runs)


def _questions_and_answers(*runs: ChatRun) -> Words:
    texts = (f"{question}\n    {_answer_text(output)}" for run in runs for question, output in run.outputs.items())
    return Words("\n\n".join(texts))


def _answer_text(output: RequestOutput) -> str:
    between = output.metrics.inter_token_latency
    pace = "" if between is None else f", {1e3 * between:.1f} ms per token"
    return f"{output.outputs[0].text.strip()}\n    ({output.metrics.num_output_tokens} tokens{pace})"


def same_answers(first: WorkloadRun | ChatRun | Notice, second: WorkloadRun | ChatRun | Notice) -> Words | Notice:
    """State whether two runs generated the same tokens for the requests they have in common."""
    return show(_comparison, first, second)


def _comparison(first: WorkloadRun | ChatRun, second: WorkloadRun | ChatRun) -> Words:
    both = first.token_ids.keys() & second.token_ids.keys()
    different = [name for name in first.token_ids if name in both and first.token_ids[name] != second.token_ids[name]]
    if not both:
        return Words("The two runs have no request in common.")
    if not different:
        subject = {1: "The request", 2: "Both requests"}.get(len(both), f"All {len(both)} requests")
        return Words(f"{subject} generated the same tokens in both runs.")
    return Words(f"DIFFERENT answers for {', '.join(different)}: that must never happen.")
