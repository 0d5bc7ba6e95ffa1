"""The simulator's part of the page: its predictions, and the engine's measurements."""

from collections.abc import Mapping
from typing import Any

from course.simulator.measured_engine import FITTED_ON
from course.terminal.charts import duration
from tools.benchmarks.table import Record, table

HEAD = "## `mini-vllm calibrate --check --rounds 9`\n\n"


def simulator(record: Record | None) -> str:
    """Return predictions and measurements, figure by figure."""
    if record is None:
        return HEAD + "Not measured.\n\n"
    fitted, compared, tolerance = record["calibration"], record["agreement"], record["tolerance"]
    num_near, num_rounds = sum(row["agrees"] for row in compared), len(compared[0]["ratios"])
    return (
        f"{HEAD}The simulator's cost model was fitted to {fitted['num_steps']:,} steps of the workload {FITTED_ON!r}, "
        f"model {fitted['model']!r}, {fitted['dtype']}. Then it predicted three other workloads, and the real engine "
        f"served them: {num_near} of {len(compared)} predictions are within {tolerance:.0%} of the measurement. "
        f"Each figure is the median of {num_rounds} rounds by ratio; in each the fit was measured before and "
        "after the predicted workload. Where one thread computes, as with the embedded model, seconds are CPU seconds. "
        "This is not a blind test: the method and the number of rounds were chosen while looking at these "
        "workloads, and with the default of five rounds one or two of the figures were off in some runs.\n\n"
        + table(
            ["", "measured", "predicted", "predicted / measured", "in all rounds", ""],
            [_row(row, tolerance) for row in compared],
        )
    )


def _row(row: Mapping[str, Any], tolerance: float) -> list[str]:
    show = "{:,.0f}".format if row["figure"] == "tokens/s" else duration
    verdict = "" if row["agrees"] else f"**off by {abs(row['ratio'] - 1):.0%}**"
    return [
        f"{row['workload']}, {row['figure']}",
        show(row["measured"]),
        show(row["predicted"]),
        f"{row['ratio']:.2f}",
        f"{row['ratios'][0]:.2f} to {row['ratios'][-1]:.2f}",
        verdict,
    ]
