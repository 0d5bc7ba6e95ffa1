"""Shows the gain from each phase in charts, which get one more bar in each notebook."""

from collections.abc import Mapping, Sequence

from mini_vllm.assembly.lineup import ALL_NAMES, PHASE_NAMES, Lineup
from mini_vllm_labs.fresh.jobs import run_ablation
from mini_vllm_labs.notebook.charts import Charts, Measure, bar_charts, count, percent
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.records import find_record, key_of
from mini_vllm_labs.pictures.bars import SHARE
from mini_vllm_labs.pictures.quantities import digits
from mini_vllm_labs.pictures.terminal.stage_sentences import describe, mean_ms, p95_ms
from mini_vllm_labs.runs.workloads.ablation import LineupResult

LEGEND = (
    "TTFT: time to first token, ITL: from one token to the next, simulated. Computed: tokens. "
    "Again: tokens that had been computed before. A stage that stalled has no times."
)


def milliseconds(value: float) -> str:
    return f"{digits(value)} ms"


MEASURES: list[Measure[LineupResult]] = [
    Measure("most at once", lambda stage: stage.most_running, count),
    Measure("memory held", lambda stage: stage.peak_held, percent, others=SHARE),
    Measure("stalled", lambda stage: stage.num_stalled, count),
    Measure("preempted", lambda stage: stage.num_preemptions, count),
    Measure("computed", lambda stage: stage.num_computed_tokens, count),
    Measure("again", lambda stage: stage.num_recomputed_tokens, count),
    Measure("hits", lambda stage: stage.hit_rate, percent, others=SHARE),
    # The times of a stalled lineup would cover only its first requests.
    Measure("TTFT mean", lambda run: None if run.num_stalled else mean_ms(run.first_token_latencies), milliseconds),
    Measure("ITL p95", lambda run: None if run.num_stalled else p95_ms(run.inter_token_latencies), milliseconds),
]


def ablation_charts(stages: Sequence[LineupResult], lineups: Sequence[Lineup], mark: str = "") -> Charts | Notice:
    """Return charts of one workload's stages, with a sentence about the last stage; each stage adds one phase.

    Lines across the bars show the reference's figures, unless the stages themselves are recorded.
    """
    by_name = {name_of(stage): stage for stage in stages}
    before = stages[-2] if len(stages) > 1 else None
    reference = {} if mark else reference_of(lineups)
    key = ["Line across a bar: the reference."] if reference else []
    words = [describe(stages[-1], before, stages[0]), *key, LEGEND]
    return bar_charts(by_name, MEASURES, words, reference, mark)


def name_of(stage: LineupResult) -> str:
    phases = [phase for phase in range(1, len(ALL_NAMES) + 1) if stage.lineup[phase] != "absent"]
    last = max(phase for phase in phases if phase <= len(PHASE_NAMES))
    electives = "".join(f", {phase}" for phase in phases if phase > len(PHASE_NAMES))
    return f"phases 1-{last}{electives}" if last > 1 else "phase 1"


def reference_of(lineups: Sequence[Lineup]) -> Mapping[str, LineupResult]:
    """Return the reference's recorded stages, or an empty list if there is no record of these phases."""
    recorded = find_record(key_of(run_ablation, (lineups,)))
    return {name_of(stage): stage for stage in recorded or ()}
