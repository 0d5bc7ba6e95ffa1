"""Recognises files that are not Python text despite their `.py` name, and syntax from a newer Python."""

import ast
import io
import platform
import re
import sys
import tokenize
from importlib.util import find_spec

HERE = f"Python {platform.python_version()}"
SAVE = "save it as UTF-8"
EXPORT = "hand in the plain .py file"
# The first bytes of files that are not text. A .docx file is also a zip file.
KINDS: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a zip archive or a .docx", "hand in the .py file inside, or name the archive .zip"),
    (b"\x1f\x8b", "a gzip archive", "hand in the .py file inside, or name the archive .tar.gz"),
    (b"BZh", "a bzip2 archive", "hand in the .py file inside"),
    (b"\xfd7zXZ", "an xz archive", "hand in the .py file inside"),
    (b"7z\xbc\xaf", "a 7z archive", "hand in the .py file inside"),
    (b"Rar!", "a rar archive", "hand in the .py file inside"),
    (b"%PDF", "a PDF", EXPORT),
    (b"\xd0\xcf\x11\xe0", "a Word document", EXPORT),
    (b"{\\rtf", "an RTF document", EXPORT),
    (b"\x89PNG", "a picture", EXPORT),
    (b"\xff\xd8\xff", "a picture", EXPORT),
    (b"\x7fELF", "a program", EXPORT),
    (b"SQLite format", "a database", EXPORT),
    (b"<!doctype html", "a web page", EXPORT),
    (b"<html", "a web page", EXPORT),
    (b"version https://git-lfs", "a pointer of Git LFS", "run `git lfs pull`, then hand in the file itself"),
    (b"\xff\xfe\x00\x00", "UTF-32 text", SAVE),
    (b"\x00\x00\xfe\xff", "UTF-32 text", SAVE),
    (b"\xff\xfe", "UTF-16 text", SAVE),
    (b"\xfe\xff", "UTF-16 text", SAVE),
)
NOTEBOOK = re.compile(rb'\s*\{\s*"(cells|metadata|nbformat)"\s*:')
IS_BYTECODE, NULL_SHARE = b"\r\n", 0.3
# (Python version, description, pattern in a line that an older Python cannot parse, part of that Python's error
# message)
NEWER = (
    ("3.14", "`except A, B:` without parentheses", r"^\s*except\*?\s+[\w.]+\s*,", ""),
    ("3.14", "a t-string", r"(?<![\w\"'])(t|tr|rt)[\"']", ""),
    ("3.13", "a default of a type parameter", r"^\s*(async\s+def|def|class|type)\s+\w+\s*\[[^\]]*=", ""),
    ("3.12", "type parameters in brackets", r"^\s*(async\s+def|def|class)\s+\w+\s*\[", ""),
    ("3.12", "a `type` statement", r"^\s*type\s+\w+\s*(\[.*)?=", ""),
    ("3.12", "quotes, backslashes or comments within an f-string's braces", r"(?i)(?<!\w)(f|fr|rf)[\"']", "f-string"),
)


def complaint_about_content(content: bytes) -> str:
    """If a file is not UTF-8 Python text, return its format and the remedy; otherwise return an empty string."""
    start = content.lstrip()[:64].lower()
    for signature, kind, what_to_do in KINDS:
        if content.startswith(signature) or (signature.isascii() and start.startswith(signature.lower())):
            return f"it is {kind}, not Python text: {what_to_do}."
    if NOTEBOOK.match(content):
        return f"it is a Jupyter notebook, not Python text: {EXPORT}."
    if content[2:4] == IS_BYTECODE and b"\0" in content[:16]:
        return f"it is compiled bytecode, not Python text: {EXPORT}."
    if b"\0" in content:
        places = [content[at::4].count(0) / max(1, len(content) // 4) for at in range(4)]
        num_null = sum(share > NULL_SHARE for share in places)
        if num_null in (2, 3):
            return f"it is UTF-{16 if num_null == 2 else 32} text: {SAVE}."
        return f"it has a NUL byte at byte {content.index(0) + 1:,}, so it is damaged or not text: hand it in again."
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        content.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError) as error:
        at = f", byte {error.start + 1:,}" if isinstance(error, UnicodeDecodeError) else ""
        return f"it is not UTF-8 text{at}: {SAVE}."
    return ""


def newer_syntax(error: SyntaxError) -> str:
    """Return a sentence that names this Python's version and, if recognised, the newer version that the line needs."""
    line = error.text or ""
    for version, what, in_line, in_message in NEWER:
        is_newer = tuple(map(int, version.split("."))) > sys.version_info[:2]
        if is_newer and re.search(in_line, line) and in_message in str(error.msg):
            return f"{what[0].upper()}{what[1:]} needs Python {version}; this is {HERE}."
    return f"(This is {HERE}.)"


def whereabouts(error: BaseException) -> str:
    """Return where to find a missing name (a new module, a newer Python), or an empty string."""
    module = error.name if isinstance(error, ImportError) else getattr(getattr(error, "obj", None), "__name__", None)
    if not isinstance(error, ImportError | AttributeError) or not isinstance(module, str):
        return ""
    moved = module.replace("mini_vllm.core.", "mini_vllm.electives.")
    if isinstance(error, ModuleNotFoundError) and moved != module and find_spec(moved):
        return f"{module} has moved: change the import to {moved}."
    return f"This is {HERE}; a newer version may have it." if module.partition(".")[0] in LIBRARY else ""


# the names in the second set are new in Python 3.14
LIBRARY = sys.stdlib_module_names | {"annotationlib", "compression"}


def written_for_newer(content: bytes) -> str:
    """Return the place where a file needs a newer Python, such as `line 3: ...`, or an empty string."""
    try:
        ast.parse(content)
    except SyntaxError as error:
        found = newer_syntax(error)
        return f"line {error.lineno}: {found}" if not found.startswith("(") else ""
    except (ValueError, RecursionError, MemoryError):
        pass
    return ""
