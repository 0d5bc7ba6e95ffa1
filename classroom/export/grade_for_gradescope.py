"""What Gradescope's machine runs for a submission: `python -m classroom.export.grade_for_gradescope FOLDER FILE`.

Without a jail, or after an error of the judge itself, it writes nothing and exits with 2: Gradescope then shows that
the autograder failed, and the reason to teachers alone, instead of no points to a learner.
"""

import json
import sys
from pathlib import Path

from classroom.export.gradescope import as_gradescope
from classroom.export.one_submission import SETTINGS_FILE, grade_submission, read_settings
from classroom.judge.grading_process import GraderError
from classroom.judge.jail import JailError
from classroom.judge.report import write_whole
from classroom.judge.settings import Settings
from mini_vllm.assembly.lineup import CHECKOUT


def main() -> None:
    """Grade the folder and write the results."""
    folder, target = map(Path, sys.argv[1:])
    found = read_settings(CHECKOUT / SETTINGS_FILE)
    try:
        result = grade_submission(folder, "submission", Settings.from_json(found["settings"]))
    except (JailError, GraderError) as error:
        print(f"{error}\nNothing was graded. docs/teaching.md, Gradescope, says what to do.", file=sys.stderr)
        sys.exit(2)
    write_whole(target, json.dumps(as_gradescope(result, found["visibility"]), indent=1) + "\n")


if __name__ == "__main__":
    main()
