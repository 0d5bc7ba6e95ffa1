"""`mini-vllm calibrate`: fits the simulator to this machine, and checks the fit."""

import json
import time
from dataclasses import asdict, replace
from typing import Annotated, Literal

import typer
from rich import box
from rich.table import Table

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import Lineup
from mini_vllm_labs.cli.simulate import speed
from mini_vllm_labs.pictures.terminal.charts import facts_table
from mini_vllm_labs.pictures.terminal.console import friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText, ModelName
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.pictures.terminal.step_view import FAINT
from mini_vllm_labs.simulation.agreement import (
    CHECKED_ON,
    NUM_ROUNDS,
    TOLERANCE,
    FigureComparison,
    calibrate_and_compare,
)
from mini_vllm_labs.simulation.calibration import Calibration, write_calibration
from mini_vllm_labs.simulation.measured_engine import ENGINE, FITTED_ON, MeasuredEngine
from mini_vllm_labs.simulation.model_shapes import shape_of_config


@friendly
def calibrate(
    model: ModelName = None,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="Output file for the fitted cost model.")
    ] = "calibration.json",
    check: Annotated[
        bool, typer.Option("--check", help=f"Compare with the real engine on {', '.join(CHECKED_ON)}.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of --check; the median counts.")] = NUM_ROUNDS,
    requests: Annotated[int, typer.Option(min=4, help="Requests of each measured workload.")] = 100,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Type of weights and KV cache.")] = "float32",
    cpu_time: Annotated[
        bool | None,
        typer.Option(
            "--cpu-time/--wall-time",
            help="Measure CPU time, which other processes do not stretch. Default: only if one thread computes.",
            show_default=False,
        ),
    ] = None,
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Fit the cost model of `mini-vllm simulate` to this machine.

    Measures the real engine's steps.

    Needs phase 6 and an otherwise idle machine. Only the engine's own time counts; gaps between arrivals are
    skipped.
    """
    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console)
    if team.runner == "absent":
        raise ValueError("calibrate measures a real model, so it needs phase 6 in the lineup")
    with reported("Loading torch and the model") as report:
        measured = measured_engine(model, dtype, team, requests, cpu_time)
        if check:
            calibration, compared = calibrate_and_compare(measured, team, report, rounds)
        else:
            calibration, compared = measured.calibrate(report), []
    write_calibration(output, calibration)
    if as_json:
        typer.echo(json.dumps(as_record(calibration, compared)))
        return
    console.print(whose_code(team), markup=False)
    console.print(fitted_table(calibration, output))
    if check:
        console.print(agreement_table(compared))
        console.print(verdict(compared), style=FAINT, markup=False)


def measured_engine(
    model: str | None, dtype: str, lineup: Lineup, num_requests: int, cpu_time: bool | None
) -> MeasuredEngine:
    """Load the model and return its engine, whose steps are timed by CPU time if possible, otherwise by wall time."""
    import torch

    from mini_vllm.runner.loading import open_model
    from mini_vllm.runner.paged_model_runner import PagedModelRunner

    engine = build_engine(replace(ENGINE, dtype=dtype), lineup, model)
    if isinstance(engine.runner, PagedModelRunner) and engine.runner.threads is not None:
        engine.runner.threads.fix()
    shape = shape_of_config(model or "embedded", open_model(model)[0].config)
    if cpu_time is None:
        cpu_time = torch.get_num_threads() == 1
    return MeasuredEngine(engine, shape, num_requests, time.process_time if cpu_time else time.perf_counter)


def fitted_table(calibration: Calibration, path: str) -> Table:
    cost = calibration.cost
    steps = f"{calibration.num_steps:,} steps of {FITTED_ON!r}"
    return facts_table(
        {
            "fitted on": f"{steps}, {calibration.model}, {calibration.dtype}",
            "bandwidth": speed(cost.bandwidth, "B/s"),
            "arithmetic": speed(cost.flop_rate, "FLOP/s"),
            "per step": f"{cost.seconds_per_step * 1e3:.3f} ms",
            "per request": f"{cost.seconds_per_request * 1e3:.3f} ms",
            "typical error": f"{calibration.typical_error:.1%} of a step's time",
            "written to": f"{path}: mini-vllm simulate --calibration {path} --scale 0.1",
        }
    )


def agreement_table(compared: list[FigureComparison]) -> Table:
    """Return measured and predicted values side by side."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("workload", "figure", "measured", "predicted", "ratio", "rounds", ""):
        table.add_column(heading, justify="left" if heading in ("workload", "figure", "") else "right", no_wrap=True)
    for row in compared:
        unit, factor = ("", 1.0) if row.figure == "tokens/s" else (" ms", 1e3)
        table.add_row(
            row.workload,
            row.figure,
            f"{factor * row.measured:,.2f}{unit}",
            f"{factor * row.predicted:,.2f}{unit}",
            f"{row.ratio:.2f}",
            f"{row.ratios[0]:.2f}-{row.ratios[-1]:.2f}",
            "" if row.agrees else "off",
        )
    return table


def verdict(compared: list[FigureComparison]) -> str:
    """Return how many predictions were within the tolerance."""
    num_agreeing = sum(row.agrees for row in compared)
    return (
        f"{num_agreeing} of {len(compared)} predictions are within {TOLERANCE:.0%} of the measurement. Each "
        f"figure is the median of {len(compared[0].ratios)} rounds."
    )


def as_record(calibration: Calibration, compared: list[FigureComparison]) -> dict[str, object]:
    """Return the numbers as a JSON object, in seconds and tokens per second."""
    return {
        "calibration": asdict(calibration),
        "tolerance": TOLERANCE,
        "agreement": [{**asdict(row), "ratio": row.ratio, "agrees": row.agrees} for row in compared],
    }
