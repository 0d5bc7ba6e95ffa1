"""Provides the site's parts: pinned downloads, checked by hash and cached, and a wheel of the course."""

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.packages import folder_of, in_a_browser
from mini_vllm_labs.classroom.student_edition.edition import is_shared
from mini_vllm_labs.upkeep.peer_environment import run_pip

HERE = Path(__file__).parent
PYODIDE = "314.0.6"  # the version for which the jupyterlite-pyodide-kernel in builder.txt was made
PYODIDE_SHA512 = "BKDTJyIqFxC4BExLqeRS3f5xvXZIjOt8C3zGLN/Cc7tFxSwvKVhVkchQQ2AGLOtR4YrVOIFxbV8poyDOOmWwxQ=="
PYTHON = "3.14"  # that Pyodide's Python version
EXTENSIONS = "share/jupyter/labextensions"
# The wheels that we use from the kernel's extension: the kernel, and placeholders for packages that a browser does not
# need.
KERNEL_WHEELS = ("ipykernel-6", "piplite-", "pyodide_kernel-", "widgetsnbextension-4")
NO_JEDI = {
    "jedi.py": 'raise ImportError("left out of the browser")\n',  # without it, IPython completes from existing objects
    "jedi-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: jedi\nVersion: 0\n",
    "jedi-0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: labs\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "jedi-0.dist-info/RECORD": "",
}
BOOT = Path(__file__).with_name("boot.py")
NAME = "mini_vllm_course"
LEFT_OUT = (  # used only by local installations and when the site is built
    "mini_vllm/embedded_model/model.safetensors",
    "mini_vllm/embedded_model/draft/",
    "mini_vllm/embedded_model/adapter/",
    "mini_vllm_labs/runs/parity/traces",  # including the packages of later releases
    "labs/phase6_gpu_runner/test_",
)
# IPython reads this from the wheel's data when a kernel starts, so the start-up code does not need a cell.
IPYTHON_CONFIG = """\
c.InteractiveShellApp.ignore_cwd = True  # the working folder is on the drive: looking there for modules is slow
c.InteractiveShellApp.exec_lines = ["import mini_vllm_course as _course; _course.boot(); del _course"]
"""
DATE = (1980, 1, 1, 0, 0, 0)


class DownloadError(ValueError):
    """A part could not be downloaded, or differs from the pinned version; the message names the part."""


class Downloads:
    """Stores the parts in a single folder. Each method downloads its part if it is missing, and raises `DownloadError`
    on failure."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        cache.mkdir(parents=True, exist_ok=True)

    def builder(self) -> Path:
        """Return the Python interpreter of an environment with JupyterLite."""
        python = self.cache / "env/bin/python"
        pinned = self._stamp("env", HERE / "builder.txt")
        if not pinned.exists():
            given = ("--constraint", str(CHECKOUT / "constraints.txt"), "-r", str(HERE / "builder.txt"))
            run_pip(python, "install", "--quiet", *given)
            pinned.touch()
        return python

    def pyodide(self) -> Path:
        """Return the unpacked folder of npm's Pyodide package."""
        folder = self.cache / f"pyodide-{PYODIDE}"
        if not folder.exists():
            run("npm", "pack", "--silent", f"pyodide@{PYODIDE}", cwd=self.cache)
            packed = self.cache / f"pyodide-{PYODIDE}.tgz"
            if base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode() != PYODIDE_SHA512:
                packed.unlink()
                raise DownloadError(f"npm's pyodide {PYODIDE} is not the pinned version: its sha512 differs")
            unpacked = self.cache / "unpacked"
            shutil.rmtree(unpacked, ignore_errors=True)
            with tarfile.open(packed) as archive:
                archive.extractall(unpacked, filter="data")
            (unpacked / "package").rename(folder)
        return folder

    def wheels(self) -> list[Path]:
        """Return the wheels in `wheels.txt`, and an empty jedi wheel, because the kernel would otherwise download
        jedi."""
        folder, pinned = self.cache / "wheels", self._stamp("wheels", HERE / "wheels.txt")
        if not pinned.exists():
            shutil.rmtree(folder, ignore_errors=True)
            target = ("--implementation", "py", "--abi", "none", "--platform", "any", "--python-version", PYTHON)
            options = ("--quiet", "--dest", str(folder), "--only-binary", ":all:", "--no-deps", "--require-hashes")
            run_pip(self.builder(), "download", *options, *target, "-r", str(HERE / "wheels.txt"))
            write_zip(folder / "jedi-0-py3-none-any.whl", {name: text.encode() for name, text in NO_JEDI.items()})
            pinned.touch()
        return sorted(folder.glob("*.whl"))

    def kernel_wheels(self) -> list[Path]:
        """Return the wheels from the kernel's JupyterLab extension."""
        folder = self.builder().parents[1] / EXTENSIONS / "@jupyterlite/pyodide-kernel-extension/static/pypi"
        return sorted(path for path in folder.glob("*.whl") if path.name.startswith(KERNEL_WHEELS))

    def _stamp(self, name: str, pins: Path) -> Path:
        """Return the path of a file that exists once `name` has been downloaded with these pins."""
        return self.cache / f"{name}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}.done"


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command. Raises `DownloadError` with the last 15 lines of output if the command fails."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise DownloadError(f"{command[0]} is not installed") from None
    if done.returncode:
        text = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise DownloadError(f"`{' '.join(map(str, command))}` failed:\n{text}")


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_course_wheel(edition: Mapping[str, bytes], folder: Path) -> Path:
    """Write the wheel of an edition. The wheel's version is a hash of its content, so browsers never use an older
    wheel."""
    kept = {path: edition[path] for path in sorted(edition) if belongs(path)}
    packed = zipped(kept)
    version = f"0+{hashlib.sha256(packed + BOOT.read_bytes()).hexdigest()[:12]}"
    info = f"{NAME}-{version}.dist-info"
    files = {
        f"{NAME}.py": BOOT.read_bytes(),
        f"{NAME}.zip": packed,
        f"{NAME}-{version}.data/data/etc/ipython/ipython_config.py": IPYTHON_CONFIG.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: mini-vllm-course\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: labs\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    for older in folder.glob(f"{NAME}-*.whl"):
        older.unlink()
    wheel = folder / f"{NAME}-{version}-py3-none-any.whl"
    wheel.write_bytes(zipped(files))
    return wheel


def belongs(path: str) -> bool:
    folders = tuple(map(folder_of, in_a_browser()))
    return (path.startswith(folders) or is_shared(path) or path == "pyproject.toml") and not path.startswith(LEFT_OUT)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a reproducible zip: the same files always give the same bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, DATE), content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def digest(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
