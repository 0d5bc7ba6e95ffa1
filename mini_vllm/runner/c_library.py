"""Compiles C files for this processor and loads them; the engine's own files are compiled once per machine."""

import ctypes
import os
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from mini_vllm.environment import CACHE

HERE = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-O3", "-march=native", "-ffast-math", "-fPIC", "-c")
POINTER, LENGTH, NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def can_compile() -> bool:
    """Return whether a C compiler and its headers are installed and the compiler accepts our options."""
    try:
        trial = '#include "numbers.h"\n#include <math.h>\n'
        compile_library("nothing.c", trial, ("-DIS_BFLOAT16=0",), is_kept=True)
    except ValueError:
        return False
    return True


def compile_library(name: str, code: str, options: tuple[str, ...], *, is_kept: bool = False) -> ctypes.CDLL:
    """Compile `code` with our options plus `options` and return the loaded library.

    With `is_kept` the library stays in the user's cache folder for later processes; its file name contains a digest of
    everything it depends on. Raises `ValueError` with the compiler's message if compiling fails, or if there is no
    compiler.
    """
    return _library(find_compiler(), name, code, options, is_kept)


@cache
def _library(compiler: str | None, name: str, code: str, options: tuple[str, ...], is_kept: bool) -> ctypes.CDLL:
    if compiler is None:
        raise ValueError(f"{name} cannot be compiled: it needs one of the compilers {', '.join(COMPILERS)}")
    with TemporaryDirectory() as folder:
        source, library = Path(folder) / name, Path(folder) / "library.so"
        kept = _cache_folder() / f"{source.stem}-{_digest(compiler, code, options)}.so"
        if is_kept and (found := _load(kept)):
            return found
        source.write_text(code, encoding="utf-8")
        if refusal := _compile(compiler, source, options, library):
            raise ValueError(f"{name} cannot be compiled:\n{refusal}")
        if is_kept:
            _keep(library, kept)
        return ctypes.CDLL(str(library))


def _load(library: Path) -> ctypes.CDLL | None:
    """Load a library; return None if the file is missing or truncated by a full disk."""
    try:
        return ctypes.CDLL(str(library))
    except OSError:
        return None


def _cache_folder() -> Path:
    return Path(CACHE.get() or Path.home() / ".cache") / "mini-vllm"


def _digest(compiler: str, code: str, options: tuple[str, ...]) -> str:
    """Return a digest of everything a library depends on, for its file name."""
    headers = [header.read_text(encoding="utf-8") for header in sorted(HERE.glob("*.h"))]
    return sha256(repr((code, options, OPTIONS, headers, _processor(compiler), torch.__file__)).encode()).hexdigest()


@cache
def _processor(compiler: str) -> str:
    """Return the compiler's predefined macros: its version and the instructions that it may use on this processor."""
    command = [compiler, "-march=native", "-E", "-dM", "-x", "c", os.devnull]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _keep(library: Path, kept: Path) -> None:
    """Copy a library into the cache atomically; do nothing if the folder is not writable."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=kept.parent) as folder:
            shutil.copy(library, folder)
            (Path(folder) / library.name).replace(kept)
    except OSError:
        pass


def torch_threads() -> list[str]:
    """Return torch's OpenMP library in a list if it is GCC's, otherwise an empty list (macOS uses a different one)."""
    return sorted(map(str, (Path(torch.__file__).parent / "lib").glob("libgomp*")))[:1]


def _compile(compiler: str, source: Path, options: tuple[str, ...], library: Path) -> str:
    """Compile a file into a library; return "" or the compiler's error."""
    compiled = library.with_suffix(".o")
    # Use torch's threads: a second thread pool would compete with them.
    threads = torch_threads()
    openmp = ["-fopenmp"] if threads else []
    # Compile and link separately, because linking with -ffast-math turns off subnormals in the whole process.
    for arguments in (
        [*OPTIONS, *openmp, f"-I{HERE}", *options, str(source), "-o", str(compiled)],
        ["-shared", str(compiled), *threads, "-lm", "-o", str(library)],
    ):
        done = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip() or f"exit code {done.returncode}"
    return ""
