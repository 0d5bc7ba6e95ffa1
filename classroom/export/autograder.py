"""Gradescope: the autograder as a zip of two scripts, the settings, and the course with its solutions."""

import json
import zipfile
from pathlib import Path

from classroom.export.gradescope import Visibility
from classroom.export.one_submission import SETTINGS_FILE
from classroom.judge.settings import Settings
from classroom.student_edition.edition import files_of
from mini_vllm.assembly.lineup import CHECKOUT

TAKEN = (
    *("LICENSE", "README.md", "pyproject.toml", "constraints.txt", "lab.py"),
    *("mini_vllm/", "course/", "classroom/", "labs/", "solutions/"),
)
SCRIPT, FILE = 0o100755 << 16, 0o100644 << 16
OLDEST = (1980, 1, 1, 0, 0, 0)

SETUP = """\
#!/usr/bin/env bash
# Runs once, as root, when Gradescope builds the image (Ubuntu 22.04 or newer).
set -euo pipefail
cd "${AUTOGRADER:-/autograder}/source"
apt-get update -q
apt-get install -y -q --no-install-recommends bubblewrap libseccomp2
for version in 3.13 3.12 3.11; do
    if apt-get install -y -q --no-install-recommends "python$version" "python$version-venv"; then break; fi
done
"python$version" -c "import lab; lab.set_up('cpu')"
"""
RUN = """\
#!/usr/bin/env bash
# Runs for each submission.
set -euo pipefail
base="${AUTOGRADER:-/autograder}"
cd "$base/source"
exec .venv/bin/python -m classroom.export.grade_for_gradescope "$base/submission" "$base/results/results.json"
"""


def compose(settings: Settings, visibility: Visibility, checkout: Path = CHECKOUT) -> dict[str, bytes]:
    """Return the files of the autograder, path to content. The seed is in them, and the solutions."""
    kept = {"settings": settings.as_json(), "visibility": visibility}
    scripts = {"setup.sh": SETUP, "run_autograder": RUN, SETTINGS_FILE: json.dumps(kept, indent=1) + "\n"}
    course = {path: (checkout / path).read_bytes() for path in files_of(checkout) if path.startswith(TAKEN)}
    return {name: text.encode() for name, text in scripts.items()} | course


def write_zip(files: dict[str, bytes], target: Path) -> None:
    """Write the zip; the scripts lie in its root and may be run."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, OLDEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = SCRIPT if path in ("setup.sh", "run_autograder") else FILE
            archive.writestr(entry, content)
