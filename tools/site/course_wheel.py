"""The wheel that brings the course into the browser's kernel: a zip of it, and the module that unpacks it."""

import hashlib
import io
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

BOOT = Path(__file__).with_name("boot.py")
NAME = "mini_vllm_course"
FOLDERS = ("mini_vllm/", "policies/", "course/", "arena/", "cli/", "labs/")
FILES = ("conftest.py", "pyproject.toml")
LEFT_OUT = (  # what only a local installation can use, or only the build of the site
    "mini_vllm/embedded_model/model.safetensors",
    "mini_vllm/embedded_model/draft/",
    "mini_vllm/embedded_model/adapter/",
    "course/parity/traces/",
    "labs/phase6_gpu_runner/test_",
)
# IPython reads it from the wheel's data when a kernel starts: start-up code that is no cell.
IPYTHON_CONFIG = """\
c.InteractiveShellApp.ignore_cwd = True  # the working folder is on the drive: looking there for modules is slow
c.InteractiveShellApp.exec_lines = ["import mini_vllm_course as _course; _course.boot(); del _course"]
"""
DATE = (1980, 1, 1, 0, 0, 0)


def write_course_wheel(edition: Mapping[str, bytes], folder: Path) -> Path:
    """Write the wheel of an edition; its version is that of its content, so that no browser keeps an older one."""
    kept = {path: edition[path] for path in sorted(edition) if belongs(path)}
    packed = zipped(kept)
    version = f"0+{hashlib.sha256(packed + BOOT.read_bytes()).hexdigest()[:12]}"
    info = f"{NAME}-{version}.dist-info"
    files = {
        f"{NAME}.py": BOOT.read_bytes(),
        f"{NAME}.zip": packed,
        f"{NAME}-{version}.data/data/etc/ipython/ipython_config.py": IPYTHON_CONFIG.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: mini-vllm-course\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tools.site\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    for older in folder.glob(f"{NAME}-*.whl"):
        older.unlink()
    wheel = folder / f"{NAME}-{version}-py3-none-any.whl"
    wheel.write_bytes(zipped(files))
    return wheel


def belongs(path: str) -> bool:
    return (path.startswith(FOLDERS) or path in FILES) and not path.startswith(LEFT_OUT)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a zip; the same files give the same bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, DATE), content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def digest(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
