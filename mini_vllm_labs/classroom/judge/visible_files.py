"""Finds the files that a worker needs: Python, its packages, and the shared libraries that they use."""

import os
import re
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from glob import glob
from pathlib import Path

from mini_vllm_labs.classroom.packages import top_level

SYSTEM_LINKS = ("/bin", "/lib", "/lib32", "/lib64")  # these point into /usr on most systems
LINKER_CACHE = "/etc/ld.so.cache"
LINKED = re.compile(r"(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
# Binaries loaded by numpy, torch and Python (without `_tkinter`, which needs a screen).
BINARIES = ("lib-dynload/[!_]*.so", "lib-dynload/_[!t]*.so", "numpy/**/*.so", "torch/_C*.so", "torch/lib/*.so*")
UNWINDER = "libgcc_s.so.1"  # glibc loads this library when a thread exits


@cache
def file_options() -> list[str]:
    """Return the bubblewrap options that make only these files visible. Raises `OSError` if `ldd` is missing."""
    options: list[str] = []
    for path in SYSTEM_LINKS:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
    folders = library_folders()
    files = [sys.executable, os.path.realpath(sys.executable), f"{sys.prefix}/pyvenv.cfg", LINKER_CACHE]
    for path in outer([*folders, *filter(os.path.exists, files), *linked_libraries(folders)]):
        options += [*folders_above(path), "--ro-bind", os.path.realpath(path), path]
    another_pythons = {f"{folder}/{name}" for folder in folders for name in ("site-packages", "dist-packages")}
    installed_course = {f"{folder}/{name}" for folder in folders for name in top_level()}
    for path in sorted(filter(os.path.isdir, another_pythons - set(folders) | installed_course)):
        options += ["--tmpfs", path, "--remount-ro", path]
    return options


def library_folders() -> list[str]:
    """Return the folders of the standard library and of installed packages, under all of their names."""
    packages = [path for path in sys.path if path.endswith(("-packages", "lib-dynload"))]
    found = [sysconfig.get_path("stdlib"), *packages, *site.getsitepackages()]
    return sorted({name for path in found if os.path.isdir(path) for name in (path, os.path.realpath(path))})


def linked_libraries(folders: Iterable[str]) -> list[str]:
    binaries = [path for folder in folders for one in BINARIES for path in glob(f"{folder}/{one}", recursive=True)]
    listed = subprocess.run(["ldd", sys.executable, *binaries], capture_output=True, text=True, check=False).stdout
    found = set(LINKED.findall(listed))
    found |= {f"{os.path.dirname(path)}/{UNWINDER}" for path in found}
    paths = {os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in found}
    return sorted(path for path in paths if os.path.exists(path))


def outer(paths: Iterable[str]) -> list[str]:
    """Drop paths that are inside another path in the list."""
    every = sorted(set(paths))
    return [path for path in every if not any(path.startswith(other + "/") for other in every)]


def folders_above(path: str) -> list[str]:
    """Return options that create a path's parent folders so that every user can search them."""
    options = []
    for folder in list(Path(path).parents)[-2::-1]:
        options += ["--perms", "0755", "--dir", str(folder)]
    return options
