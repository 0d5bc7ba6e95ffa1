"""Reports the results of a class: a table for the terminal, and files."""

import csv
import hashlib
import io
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from mini_vllm_labs.classroom.judge.results import ClassResults, GroupResult, PhaseResult, is_written

MAX_NAME_BYTES = 120
MAX_MISSED = 5
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def class_table(report: ClassResults) -> Table:
    """Return a table, 80 characters wide, with a row per submission and a column per phase."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("submission", overflow="fold", min_width=12)
    for phase in report.submissions[0]["phases"] if report.submissions else []:
        table.add_column(f"{phase['phase']}", justify="right", no_wrap=True, min_width=6)
    table.add_column("points", justify="right", no_wrap=True, min_width=8)
    table.add_column("together", justify="right", no_wrap=True, min_width=9)
    for summary in report.submissions:
        status = summary["together"]["status"]
        table.add_row(
            Text(summary["name"]),
            *[phase_cell(phase) for phase in summary["phases"]],
            Text(f"{summary['points']:g}/{summary['max']}", "bold"),
            Text(status, {"pass": "green", "fail": "red"}.get(status, "dim")),
        )
    return table


def phase_cell(phase: PhaseResult) -> Text:
    """Return the points of a phase, a dash if it is missing, or `error` if it cannot be loaded."""
    if phase["error"]:
        return Text("-", "dim") if not phase["sha256"] else Text("error", "bold red")
    if not is_written(phase):
        return Text("-", "dim")
    full = phase["points"] == phase["max"]
    return Text(f"{phase['points']:g}/{phase['max']}", "green" if full else "red")


def missed_table(report: ClassResults) -> Table | None:
    """Return the groups that the class missed most, without names; None for a single learner or if nothing was
    missed."""
    groups: defaultdict[tuple[int, str], list[GroupResult]] = defaultdict(list)
    for phase in (phase for summary in report.submissions for phase in summary["phases"] if is_written(phase)):
        for group in phase["groups"]:
            groups[phase["phase"], group["title"]].append(group)
    missed = {place: share_missed(found) for place, found in groups.items()}
    most = sorted((place for place in missed if missed[place]), key=lambda place: -missed[place])[:MAX_MISSED]
    if len(report.submissions) < 2 or not most:
        return None
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, title="Missed most", title_justify="left")
    for heading in ("phase", "group of situations", "missed", "by learners"):
        table.add_column(heading, justify="left" if "group" in heading else "right")
    for phase_number, title in most:
        found = groups[phase_number, title]
        num_learners = sum(group["points"] < group["max"] for group in found)
        share = missed[phase_number, title]
        table.add_row(f"{phase_number}", f"  {title}", f"{share:.0%}", f"{num_learners} of {len(found)}")
    return table


def share_missed(groups: Sequence[GroupResult]) -> float:
    """Return the share of situations that were not right."""
    situations = [status for group in groups for status in group["situations"]]
    return sum(status != "right" for status in situations) / len(situations)


def as_csv(report: ClassResults) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    phases = [phase["phase"] for phase in report.submissions[0]["phases"]] if report.submissions else []
    extras = [name for name, *_ in report.extras]
    heads = ["submission", *[f"phase_{number}" for number in phases], "points", "max", "together", *extras, "error"]
    writer.writerow(heads)
    for summary in report.submissions:
        points = [phase["points"] for phase in summary["phases"]]
        row = [safe_cell(summary["name"]), *points, summary["points"], summary["max"]]
        row += [summary["together"]["status"].replace("-", ""), *extra_cells(report, summary["name"])]
        writer.writerow([*row, safe_cell(summary["error"] or "")])
    return out.getvalue()


def extra_cells(report: ClassResults, name: str) -> list[int | str]:
    """Return the cells for the viva and the tests, if they exist; a learner without points gets an empty cell."""
    return [points.get(name, "") for *_, points in report.extras]


def safe_cell(text: str) -> str:
    """Return text that no spreadsheet reads as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def require_writable(files: Iterable[Path | None], folder: Path | None = None) -> None:
    """Raise `ValueError` if a file cannot be written, so that the error comes before hours of work, not after."""
    named = list(filter(None, files))
    if len({file.resolve() for file in named}) < len(named):
        raise ValueError("multiple results need separate files: name one file for each")
    for file in named:
        if file.is_dir():
            raise ValueError(f"{file} is a folder: name a file")
        if file.exists() and not file.is_file():
            raise ValueError(f"{file} is a device or a pipe: name a regular file")
        if not os.access(file.resolve().parent, os.W_OK):
            raise ValueError(f"{file}: the folder {file.parent} does not exist or is not writable")
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"{folder} cannot be a folder for feedback: {error.strerror}") from None
        if not os.access(folder, os.W_OK):
            raise ValueError(f"{folder} is not writable")


def write_tables(report: ClassResults, *, json_file: Path | None, csv_file: Path | None) -> list[str]:
    """Write the requested tables, each atomically; return the reasons why some could not be written."""
    return write_all({json_file: json.dumps(report.as_json(), indent=1) + "\n", csv_file: as_csv(report)})


def write_all(texts: Mapping[Path | None, str]) -> list[str]:
    """Write each text that has a path, atomically; return the reasons why some could not be written."""
    failures = list[str]()
    for path, text in texts.items():
        try:
            if path is not None:
                write_whole(path, text)
        except ValueError as error:
            failures.append(str(error))
    return failures


def write_feedback(folder: Path, name: str, text: str) -> None:
    write_whole(folder / f"{file_name(name)}.txt", text)


def file_name(name: str) -> str:
    """Return a short, unique file name without characters that are special to a file system."""
    plain = re.sub(r"[^\w.@ -]", "_", name).lstrip(".") or "_"
    short = plain.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return name if short == name else f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically: write it under a temporary name, then rename it.

    Raises `ValueError` if that is impossible.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8", errors="replace")
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise ValueError(
            f"{path} cannot be written: {error.strerror}. The file's earlier contents are unchanged"
        ) from None
