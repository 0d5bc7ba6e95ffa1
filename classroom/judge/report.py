"""The results of a class: a table for the terminal, and the files."""

import csv
import io
import json
import os
import re
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from classroom.judge.feedback import feedback
from classroom.judge.results import PhaseGrade, Report, shown_points

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def class_table(report: Report) -> Table:
    """Return a row per submission with a column per phase, in 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("submission", overflow="fold", min_width=12)
    phases = report.grades[0].phases if report.grades else []
    for phase in phases:
        table.add_column(f"{phase.number}", justify="right", no_wrap=True, min_width=6)
    table.add_column("points", justify="right", no_wrap=True, min_width=8)
    table.add_column("together", justify="right", no_wrap=True, min_width=9)
    for grade in report.grades:
        table.add_row(
            Text(grade.name),
            *[phase_cell(phase) for phase in grade.phases],
            Text(f"{shown_points(grade.points):g}/{grade.max_points}", "bold"),
            Text(grade.together_status, {"pass": "green", "fail": "red"}.get(grade.together_status, "dim")),
        )
    return table


def phase_cell(phase: PhaseGrade) -> Text:
    """Return the points of a phase; a dash if it is missing, `error` if it does not load."""
    if phase.error:
        return Text("-", "dim") if not phase.sha256 else Text("error", "bold red")
    if not phase.is_written:
        return Text("-", "dim")
    full = phase.points == phase.max_points
    return Text(f"{shown_points(phase.points):g}/{phase.max_points}", "green" if full else "red")


def as_csv(report: Report) -> str:
    """Return one line per submission."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    phases = [phase.number for phase in report.grades[0].phases] if report.grades else []
    writer.writerow(["submission", *[f"phase_{number}" for number in phases], "points", "max", "together", "error"])
    for grade in report.grades:
        points = [shown_points(phase.points) for phase in grade.phases]
        total = shown_points(grade.points)
        row = [safe_cell(grade.name), *points, total, grade.max_points]
        writer.writerow([*row, grade.together_status.replace("-", ""), safe_cell(grade.error)])
    return out.getvalue()


def safe_cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def write_files(
    report: Report, *, json_file: Path | None, csv_file: Path | None, folder: Path | None, reveal: bool
) -> None:
    """Write the requested files, each atomically."""
    if json_file is not None:
        write_whole(json_file, json.dumps(report.as_json(), indent=1) + "\n")
    if csv_file is not None:
        write_whole(csv_file, as_csv(report))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for grade in report.grades:
            write_whole(folder / f"{file_name(grade.name)}.txt", feedback(grade, report, reveal=reveal))


def file_name(name: str) -> str:
    """Return a submission's name as a file's: nothing in it that means something to a file system."""
    return re.sub(r"[^\w.@ -]", "_", name).lstrip(".") or "_"


def write_whole(path: Path, text: str) -> None:
    """Write next to the file first, then take its place."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
