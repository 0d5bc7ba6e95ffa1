"""The lab's pages: JupyterLite over the notebooks, handouts and starters of the student edition."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.site.downloads import Downloads, run

PAGE = Path(__file__).with_name("page")
SHOWN = re.compile(r"notebooks/[^/]+\.ipynb|labs/(?:\w+/)?README\.md|labs/(?!phase6_)phase[^/]+/starter\.py")
# In the place of a notebook that needs the learner's own machine stands one that says so.
NEEDS = {"notebooks/06_gpu_runner.ipynb": "PyTorch", "notebooks/12_serving.ipynb": "a server and PyTorch"}
INSTEAD = """\
This notebook needs {need}, which no browser's tab has. It runs in a local installation:

1. Install the course, see **Install it** at the top right, and open the notebooks with `make lab`.
2. Take along what you wrote here: **Export my work**, then `mini-vllm bring my_work.zip` there.
3. Open `{path}`."""
# For browsers from before modules, which run no line of lab.js.
OLD = (
    '<script>if (!("noModule" in HTMLScriptElement.prototype)) { window.stop(); document.documentElement.innerHTML = '
    '"<p role=alert>The lab needs a browser of 2023 or later: take a current Firefox, Chrome, Edge or Safari, or '
    'install the course.</p>"; }'
    "</script>"
)
ADDED = (
    OLD + '<link rel="stylesheet" href="../page/lab.css"><script type="module" src="../page/lab.js"></script></head>'
)


def write_lab(edition: Mapping[str, bytes], downloads: Downloads, folder: Path) -> None:
    """Write the pages into a folder beside `pyodide/`. Raises `DownloadError` if JupyterLite does not build them."""
    work = folder.with_name("lite")
    for path, content in edition.items():
        if SHOWN.fullmatch(path):
            target = work / "files" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(elsewhere(path, content) if path in NEEDS else content)
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


def elsewhere(path: str, notebook: bytes) -> bytes:
    """Return a notebook that has the title of the given one, and where that one runs."""
    content = json.loads(notebook)
    title = "".join(content["cells"][0]["source"]).partition("\n")[0]
    text = f"{title}\n\n{INSTEAD.format(need=NEEDS[path], path=path)}"
    return json.dumps(content | {"cells": [{"cell_type": "markdown", "metadata": {}, "source": text}]}).encode()
