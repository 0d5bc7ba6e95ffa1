"""Builds the zip for Gradescope's autograder, and grades a submission on Gradescope's machine.

The zip contains two scripts, the settings, and the course with its solutions. The machine runs `python -m
mini_vllm_labs.classroom.export.gradescope FOLDER FILE`. Without a jail, or after an error in the judge itself, that
command writes nothing and exits with status 2. Gradescope then reports a failed autograder instead of giving a learner
no points, and shows the reason only to teachers. The results follow
gradescope-autograders.readthedocs.io/en/latest/specs.
"""

import json
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.export.vivas import Vivas, points_for
from mini_vllm_labs.classroom.judge.class_run import GraderError, GradingProcess, RecordedResult
from mini_vllm_labs.classroom.judge.jail import JailError, find_jail
from mini_vllm_labs.classroom.judge.probe import require_jail
from mini_vllm_labs.classroom.judge.report import write_whole
from mini_vllm_labs.classroom.judge.results import MAX_VIVA, GroupResult, PhaseResult
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import HandedIn
from mini_vllm_labs.classroom.packages import top_level
from mini_vllm_labs.classroom.student_edition.edition import files_of
from mini_vllm_labs.classroom.worker.text import printable

Visibility = Literal["visible", "after_due_date", "after_published", "hidden"]
MAX_OUTPUT = 500_000
SETTINGS_FILE = "judge_settings.json"
TAKEN = ("LICENSE", "README.md", "pyproject.toml", "constraints.txt", "lab.py")
SCRIPT, FILE = 0o100755 << 16, 0o100644 << 16
OLDEST = (1980, 1, 1, 0, 0, 0)
SETUP = Path(__file__).with_name("setup.sh").read_text(encoding="utf-8")
RUN = Path(__file__).with_name("run_autograder.sh").read_text(encoding="utf-8")


def compose(
    settings: JudgeSettings, visibility: Visibility, vivas: Vivas | None = None, checkout: Path = CHECKOUT
) -> dict[str, bytes]:
    """Return the autograder's files as a mapping from path to content. The files include the seed and the solutions."""
    kept = {"settings": asdict(settings), "visibility": visibility, "vivas": vivas.by_digests() if vivas else []}
    scripts = {"setup.sh": SETUP, "run_autograder": RUN, SETTINGS_FILE: json.dumps(kept, indent=1) + "\n"}
    taken = (*TAKEN, *(f"{name}/" for name in top_level(checkout) if name != "tests"))
    course = {path: (checkout / path).read_bytes() for path in files_of(checkout) if path.startswith(taken)}
    return {name: text.encode() for name, text in scripts.items()} | course


def write_zip(files: dict[str, bytes], target: Path) -> None:
    """Write the zip, with executable scripts in its root."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, OLDEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = SCRIPT if path in ("setup.sh", "run_autograder") else FILE
            archive.writestr(entry, content)


def as_gradescope(
    result: RecordedResult, visibility: Visibility = "visible", vivas: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the results for Gradescope: one test per group, and a final test, worth no points, with the judge's
    feedback.

    If there is a viva about exactly these files, it becomes a test too.
    """
    summary = result["summary"]
    tests = [test for phase in summary["phases"] for test in tests_of(phase)]
    viva = points_for(result["digests"], vivas)
    if viva is not None:
        tests.append(one_test("viva", "Viva", viva, MAX_VIVA, f"{viva} of {MAX_VIVA} questions right"))
    text = {"name": "What went wrong", "output": printable(result["feedback"], MAX_OUTPUT)}
    return {
        "score": summary["points"] + (viva or 0),
        "execution_time": round(result["seconds"]),
        "output": printable(summary["error"] or ""),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "tests": [*tests, text],
    }


def tests_of(phase: PhaseResult) -> list[dict[str, Any]]:
    """Return one test per group, or a single test with the reason if the phase could not be run."""
    number = phase["phase"]
    if phase["error"]:
        return [one_test(f"{number}", f"Phase {number}", phase["points"], phase["max"], printable(phase["error"]))]
    return [
        one_test(f"{number}.{index}", f"Phase {number}: {group['title']}", group["points"], group["max"], say(group))
        for index, group in enumerate(phase["groups"], 1)
    ]


def one_test(number: str, name: str, points: float, most: int, output: str) -> dict[str, Any]:
    status = "passed" if points == most else "failed"
    return {"number": number, "name": name, "score": points, "max_score": most, "status": status, "output": output}


def say(group: GroupResult) -> str:
    """Return how many situations the submission got right, and how many had each of the other statuses."""
    statuses = group["situations"]
    text = f"{statuses.count('right')} of {len(statuses)} situations right"
    others = [status for status in dict.fromkeys(statuses) if status != "right"]
    return text + "".join(f", {statuses.count(status)} {status}" for status in others)


def grade(folder: Path, settings: JudgeSettings) -> RecordedResult:
    """Grade one submission.

    Raises `JailError` if the settings require a jail that does not work, and `GraderError` if the judge itself fails.
    Neither error is a verdict on the submission.
    """
    if settings.jailed:
        require_jail(find_jail())
    grader = GradingProcess(settings)
    try:
        return grader.grade(HandedIn("submission", folder))
    finally:
        grader.end()


def main(folder: Path, target: Path) -> None:
    found = json.loads((CHECKOUT / SETTINGS_FILE).read_text(encoding="utf-8"))
    try:
        result = grade(folder, JudgeSettings.from_json(found["settings"]))
    except (JailError, GraderError) as error:
        print(f"{error}\nNothing was graded. docs/teaching.md, Gradescope, says what to do.", file=sys.stderr)
        sys.exit(2)
    write_whole(target, json.dumps(as_gradescope(result, found["visibility"], found["vivas"]), indent=1) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
