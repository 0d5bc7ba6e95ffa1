"""Charts how many recordings of vLLM's newest release an engine matches after each task of phase 14."""

from mini_vllm_labs.notebook.charts import Charts, Measure, bar_charts, count
from mini_vllm_labs.notebook.notice import Notice


def parity_bars(matches: list[int] | Notice) -> Charts | Notice:
    """Chart the counts from `matches_by_task`."""
    if isinstance(matches, Notice):
        return matches
    names = ["0.13.0", *(f"and 14.{task}" for task in range(1, len(matches)))]
    measures: list[Measure[int]] = [Measure("recordings matched", lambda matched: matched, count)]
    return bar_charts(dict(zip(names, matches, strict=True)), measures)
