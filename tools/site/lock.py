"""The folder that Pyodide loads from: npm's core, wheels, and a lock file that lists these wheels alone.

The lock of the npm package names about 350 packages that only a content network has. Ours names what lies beside it,
by plain file names: Pyodide then sends no request to another host.
"""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
BROWSER = {  # what a marker such as `sys_platform != "emscripten"` is asked about
    "sys_platform": "emscripten",
    "platform_system": "Emscripten",
    "platform_machine": "wasm32",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
}


def write_pyodide_folder(core: Path, folder: Path, wheels: Iterable[Path]) -> None:
    """Copy the core and the wheels, and write the lock. Of two wheels of one package the later one counts."""
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
    """Return the lock's entry of a wheel, which depends on `known` packages alone."""
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
