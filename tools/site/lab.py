"""The lab's pages: JupyterLite over the notebooks, handouts and starters of the student edition."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.site.downloads import Downloads, run

PAGE = Path(__file__).with_name("page")
# Phase 6 needs torch and notebook 12 a server: both are on the learner's own machine.
SHOWN = re.compile(
    r"notebooks/(?!06_|12_)[^/]+\.ipynb|labs/README\.md|labs/(?!phase6_)phase[^/]+/(?:starter\.py|README\.md)"
)
ADDED = '<link rel="stylesheet" href="../page/lab.css"><script type="module" src="../page/lab.js"></script></head>'


def write_lab(edition: Mapping[str, bytes], downloads: Downloads, folder: Path) -> None:
    """Write the pages into a folder beside `pyodide/`. Raises `DownloadError` if JupyterLite does not build them."""
    work = folder.with_name("lite")
    for path, content in edition.items():
        if SHOWN.fullmatch(path):
            target = work / "files" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    shutil.copytree(PAGE / "settings", work, dirs_exist_ok=True)
    options = ("--no-sourcemaps", "--no-unused-shared-packages", "--apps", "lab", "--output-dir", folder)
    run(
        *(downloads.builder(), "-m", "jupyterlite_core", "build", "--lite-dir", work, "--contents", work / "files"),
        *options,
        cwd=work,
    )
    shutil.rmtree(work)
    shutil.copytree(PAGE, folder / "page", ignore=shutil.ignore_patterns("settings"))
    page = folder / "lab/index.html"
    page.write_text(page.read_text("utf-8").replace("</head>", ADDED, 1), "utf-8")
