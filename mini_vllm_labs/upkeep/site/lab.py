"""Builds the lab's pages: JupyterLite with the student edition's notebooks, handouts and starters."""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from email.parser import Parser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from mini_vllm_labs.upkeep.site.downloads import Downloads, run

CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
BROWSER = {  # values for markers such as `sys_platform != "emscripten"`
    "sys_platform": "emscripten",
    "platform_system": "Emscripten",
    "platform_machine": "wasm32",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
}
PAGE = Path(__file__).with_name("page")
SHOWN = re.compile(r"notebooks/[^/]+\.ipynb|labs/(?:\w+/)?README\.md|labs/(?!phase6_)phase[^/]+/starter\.py")
# Notebooks that need the learner's own machine, with the reasons; each is replaced by a notice.
NEEDS = {
    "notebooks/06_gpu_runner.ipynb": "PyTorch",
    "notebooks/12_serving.ipynb": "a server and PyTorch",
    "notebooks/14_your_scheduler.ipynb": "a whole vLLM",
}
INSTEAD = """\
This notebook needs {need}, which no browser's tab has. It runs in a local installation:

1. Install the course, see **Install it** at the top right, and open the notebooks with `mini-vllm lab`.
2. Take along what you wrote here: **Export my work**, then `mini-vllm bring my_work.zip` there.
3. Open `{path}`."""
# For browsers that do not support modules and therefore never run lab.js.
OLD = (
    '<script>if (!("noModule" in HTMLScriptElement.prototype)) { window.stop(); document.documentElement.innerHTML = '
    '"<p role=alert>The lab needs a browser of 2023 or later: take a current Firefox, Chrome, Edge or Safari, or '
    'install the course.</p>"; }'
    "</script>"
)
ADDED = (
    OLD + '<link rel="stylesheet" href="../page/lab.css"><script type="module" src="../page/lab.js"></script></head>'
)


def write_pyodide_folder(core: Path, folder: Path, wheels: Iterable[Path]) -> None:
    """Copy the core and the wheels, and write the lock. If a package has two wheels, the later one is used.

    The npm package's lock names about 350 packages that are available only from a content delivery network. Our lock
    refers to files in the same folder by their plain names, so that Pyodide sends no requests to other hosts.
    """
    folder.mkdir()
    for name in CORE:
        shutil.copy(core / name, folder / name)
    info = json.loads((core / "pyodide-lock.json").read_text("utf-8"))["info"]
    found = {normal(wheel.name.partition("-")[0]): wheel for wheel in wheels}
    packages = {name: entry_of(wheel, info["python"], found.keys()) for name, wheel in sorted(found.items())}
    for wheel in found.values():
        shutil.copy(wheel, folder / wheel.name)
    (folder / "pyodide-lock.json").write_text(json.dumps({"info": info, "packages": packages}, indent=1), "utf-8")


def entry_of(wheel: Path, python: str, known: Iterable[str]) -> dict[str, Any]:
    """Return a wheel's entry in the lock, with dependencies limited to `known` packages."""
    environment = BROWSER | {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info"))
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
    needs = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    wanted = {normal(need.name) for need in needs if need.marker is None or need.marker.evaluate(environment)}
    tops = {name.split("/")[0].partition(".")[0] for name in names if ".dist-info/" not in name}
    return {
        "name": normal(metadata["Name"]),
        "version": metadata["Version"],
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": sorted(top for top in tops if top.isidentifier()),
        "depends": sorted(wanted & set(known)),
        "unvendored_tests": False,
    }


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def write_lab(edition: Mapping[str, bytes], downloads: Downloads, folder: Path) -> None:
    """Write the pages into a folder next to `pyodide/`. Raises `DownloadError` if JupyterLite fails."""
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
    """Return a notebook that has the given notebook's title and tells the reader where that notebook runs."""
    content = json.loads(notebook)
    title = "".join(content["cells"][0]["source"]).partition("\n")[0]
    text = f"{title}\n\n{INSTEAD.format(need=NEEDS[path], path=path)}"
    return json.dumps(content | {"cells": [{"cell_type": "markdown", "metadata": {}, "source": text}]}).encode()
