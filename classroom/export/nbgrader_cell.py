"""The graded cell of an nbgrader notebook: the judge's points for the file that the notebook has written."""

from dataclasses import replace
from pathlib import Path

from classroom.export.one_submission import SETTINGS_FILE, grade_submission, read_settings
from classroom.judge.settings import Settings


def judge_points(phase: int, folder: Path | None = None) -> float:
    """Print the judge's text and return the points, which nbgrader takes from the cell's result.

    Raises an error, which nbgrader counts as no points, if there is no file, no settings or no jail.
    """
    here = (folder or Path.cwd()).resolve()
    file = here / f"phase{phase}.py"
    if not file.is_file():
        raise FileNotFoundError(f"{file.name} is missing: the cell above must begin with %%writefile {file.name}")
    found = next((parent / SETTINGS_FILE for parent in here.parents if (parent / SETTINGS_FILE).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"{SETTINGS_FILE} is in no folder above {here}: `mini-vllm nbgrader` writes it")
    settings = replace(Settings.from_json(read_settings(found)["settings"]), phases=(phase,))
    result = grade_submission(file, file.stem, settings)
    print(result["feedback"])
    return float(result["summary"]["points"])
