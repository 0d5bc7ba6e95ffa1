"""Runs the learner's engine in a notebook, anew for each cell, with the phases that the cell needs."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from mini_vllm import EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import ALL_NAMES, Lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.environment import LAB_IMPL
from mini_vllm_labs.fresh.jobs import ChatRun, WorkloadRun, chat, play_with_lines, play_workload, run_ablation
from mini_vllm_labs.fresh.talk import talk
from mini_vllm_labs.notebook.ablation_charts import ablation_charts
from mini_vllm_labs.notebook.chain import draw_hash_blocks, hash_blocks
from mini_vllm_labs.notebook.charts import Charts
from mini_vllm_labs.notebook.graded_page import GradedTests
from mini_vllm_labs.notebook.layout import Layout, film_of_batch, lay_out, number_batch
from mini_vllm_labs.notebook.missing import first_missing, mark_for, whose_code
from mini_vllm_labs.notebook.notice import Notice, Remark, say
from mini_vllm_labs.notebook.phase_code import PhaseCode, whole_lineup
from mini_vllm_labs.notebook.pictures import watch
from mini_vllm_labs.notebook.recorded_mark import CellMarks, marked_film, marked_picture
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.workloads.ablation import ablation_lineups
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.widgets import Player

T = TypeVar("T")
# The null block is not available; the other 56 of the 57 blocks can hold one 448-token request.
TALK_POOL = EngineConfig(max_num_seqs=8, max_num_batched_tokens=64, block_size=8, num_gpu_blocks=57, max_model_len=448)


class Lab:
    """The engine for a phase's notebook: phases 1 to `phase`, using the learner's code unless `LAB_IMPL` is set.

    An elective's notebook has phases 1 to 6 and, in each run, the electives that the run's config turns on. `lineup`
    has the form of `LAB_IMPL`, and overrides it. Without `model`, phase 6 is absent. Every call runs in a new process,
    so the kernel does not need restarting after a starter is edited. If a task is unwritten, the result is a recorded
    run of the reference, marked as recorded. If a run fails or was not recorded, the result is a `Notice`. Raises
    `ValueError` if `phase` is not 1 to 14 or the lineup is invalid.
    """

    def __init__(self, phase: int, lineup: str | None = None, *, model: bool = True) -> None:
        if not 1 <= phase <= len(ALL_NAMES):
            raise ValueError(f"phase must be from 1 to {len(ALL_NAMES)}, got {phase}")
        whole = whole_lineup(lineup or LAB_IMPL.get() or "starter", phase)
        self.code = PhaseCode(phase, whole if model else replace(whole, runner="absent"))
        self._printed: set[str] = set()
        self._marks = CellMarks()

    def __repr__(self) -> str:
        notice = self.code.notice()
        return whose_code(self.lineup()) + ("" if notice is None else f"\n\n{notice}")

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        notice = self.code.notice()
        page = f"<p>{whose_code(self.lineup())}</p>{'' if notice is None else notice.html()}"
        return {"text/html": page, "text/plain": repr(self)}

    def lineup(self, phases: int | None = None, config: EngineConfig | None = None) -> Lineup:
        """Return the lineup, reduced to phases 1 to `phases`; see `PhaseCode.lineup`."""
        return self.code.lineup(phases, config)

    def kept_ready(self) -> "Lab":
        """Return the same lab, but with a process that is always ready for a panel's next run."""
        ready = copy(self)
        ready.code = self.code.kept_ready()
        return ready

    def test(self, task: int | None = None) -> GradedTests:
        """Run the graded tests of this phase, or of one of its tasks."""
        return GradedTests.run(self.code.phase, task, self.code.whole)

    def play(
        self,
        arrivals: Sequence[TimedRequest],
        config: EngineConfig | None = None,
        phases: int | None = None,
        *,
        policy: str | None = None,
        lines: bool = False,
    ) -> WorkloadRun | Notice:
        """Run a workload on the fake model with phases 1 to `phases`, optionally under a scheduling policy.

        A config that is passed is used unchanged. The default is a small pool, adapted to the phases. With `lines`, the
        time machine shows the line of your code that decided the item you click, and the steps in which a given line
        ran.
        """
        lineup = self.lineup(min(5, self.code.phase if phases is None else phases), config or SMALL_POOL)
        chosen, remarks = make_possible(SMALL_POOL, lineup) if config is None else (config, [])
        play = play_with_lines if lines and not first_missing(lineup) else play_workload
        # when there is no policy, the run was recorded without this argument
        named = [] if policy is None else [policy]
        played = self.code.call(lineup, play, arrivals, chosen, lineup, *named)
        if isinstance(played, WorkloadRun):
            self._print_once(remarks)
            say(played.stalled)
            return replace(played, recorded=mark_for(lineup))
        return played

    def reference(self) -> "Lab | Notice":
        """Return the same lab with the reference's code, or a notice saying why no comparison is possible."""
        if not solutions_exist():
            return Notice("No reference here", "This is a student edition: it has no solutions to compare with.")
        missing = first_missing(self.lineup())
        if missing:
            return Remark("Nothing of yours to compare yet", f"It appears here when phase {missing} is written.")
        theirs = Lab(self.code.phase, "solution")
        theirs.code.models = self.code.models  # so that torch need not be loaded twice
        return theirs

    def chat(
        self,
        questions: Sequence[str],
        config: EngineConfig,
        params: SamplingParams | Sequence[SamplingParams],
        phases: int | None = None,
    ) -> ChatRun | Notice:
        """Answer all questions at once with the embedded model if phase 6 is included, otherwise with the fake model.

        `params` is one value for all questions, or one per question.
        """
        lineup = self.lineup(phases, config)
        chats = self.code.call(lineup, chat, questions, config, params, lineup)
        return replace(chats, recorded=mark_for(lineup)) if isinstance(chats, ChatRun) else chats

    def talk(self, *questions: str, max_tokens: int = 64) -> "Player | Notice":
        """Answer all questions at once with the embedded model and phases 1 to 5; return the run's time machine.

        A browser shows the answers as they are generated. If a step fails, the text generated before it is kept.
        """
        lineup = self.lineup(min(5, self.code.phase))
        config, remarks = make_possible(TALK_POOL, lineup)
        run = self.code.call(lineup, talk, questions, config, SamplingParams(max_tokens=max_tokens), lineup)
        if not isinstance(run, Notice):
            self._print_once(remarks)
            say("" if IN_BROWSER else str(run))  # in a browser, the output has already been shown
            if not run.recording.steps:
                return Notice("No step was taken", run.problem)
        return watch(run)

    def hash_chain(
        self, prompts: Mapping[str, Sequence[int]], block_size: int, salts: Mapping[str, str] | None = None
    ) -> Picture | Notice:
        """Draw the chained hashes of consecutive prompts, and each prompt's hits in phase 4's cache.

        `salts` gives some prompts a `cache_salt`.
        """
        lineup, salts = self.lineup(), salts or {}
        answers = self.code.call(lineup, hash_blocks, prompts, block_size, salts, lineup)
        if isinstance(answers, Notice):
            return answers
        return marked_picture(draw_hash_blocks(prompts, block_size, salts, answers), mark_for(lineup))

    def lay_out(self, chats: ChatRun | Notice, step: int) -> Layout | Notice:
        """Lay out a step of a run on the embedded model with phase 6's functions: tokens, positions, slots."""
        if isinstance(chats, Notice):
            return chats
        lineup = self.lineup()
        layout = self.code.call(lineup, lay_out, chats, step, lineup)
        return replace(layout, recorded=mark_for(lineup)) if isinstance(layout, Layout) else layout

    def watch_batch(self, chats: ChatRun | Notice, step: int, row: int = 0) -> "Player | Notice":
        """Play a step token by token, starting at `row`, with the numbers that phase 6's functions compute."""
        if isinstance(chats, Notice):
            return chats
        lineup = self.lineup()
        arrays = self.code.call(lineup, number_batch, chats, step, lineup)
        if isinstance(arrays, Notice):
            return arrays
        return player(marked_film(film_of_batch(chats, step, arrays), mark_for(lineup)), row)

    def ablation(self) -> Charts | Notice:
        """Serve the workload of `mini-vllm stages` in simulated time with phase 1, then phases 1 to 2, and so on."""
        lineups = ablation_lineups(self.lineup(), min(5, self.code.phase))
        stages = self.code.call(lineups[-1], run_ablation, lineups)
        return stages if isinstance(stages, Notice) else ablation_charts(stages, lineups, mark_for(lineups[-1]))

    def run(self, function: Callable[..., T], *arguments: object, phases: int = 5) -> T | Notice:
        """Return `function(*arguments, lineup)`; `phases` is as in `lineup`: 5 for a simulation, 6 for the model.

        `function`, for example `simulate`, must be importable by its name.
        """
        lineup = self.lineup(phases)
        result = self.code.call(lineup, function, *arguments, lineup)
        if not isinstance(result, Notice):
            self._marks.show(mark_for(lineup))
        return result

    def _print_once(self, remarks: Sequence[str]) -> None:
        for remark in remarks:
            if remark not in self._printed:
                say(remark)
        self._printed.update(remarks)
