"""Reads the files that a viva is about or, if no viva is possible, says why in one sentence."""

import ast
import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.sandbox.imports import refused_import
from mini_vllm_labs.runs.sandbox.source_text import complaint_about_content
from mini_vllm_labs.runs.starter_status import lab_folder, unwritten_in

PHASES = range(1, 6)  # phase 6's runner does not make scheduling decisions
OWN_FILE = re.compile(r"(?:.*[^a-zA-Z])?(?:phase|starter)_?(\d+)(?!\d).*\.py", re.IGNORECASE)


@dataclass(frozen=True)
class Files:
    """The text of each written phase from 1 to 5 that can run, and the phases whose files had BOMs."""

    texts: Mapping[int, str]
    with_bom: Collection[int] = ()

    @property
    def lineup(self) -> str:
        return ",".join(f"starter:{phase}" for phase in self.texts)

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file, keyed by phase, as in the judge's results."""
        contents = {
            phase: BOM_UTF8 * (phase in self.with_bom) + text.encode("utf-8") for phase, text in self.texts.items()
        }
        return {str(phase): hashlib.sha256(content).hexdigest() for phase, content in contents.items()}

    def line(self, phase: int, number: int) -> str:
        return self.texts[phase].splitlines()[number - 1].strip()

    def with_text(self, phase: int, text: str) -> "Files":
        return Files({**self.texts, phase: text}, self.with_bom)


def read_files(folder: Path = CHECKOUT) -> Files:
    """Read starters from a checkout, its `labs`, or a folder of files such as `phase1.py`.

    Raises `ValueError` if there is no file, a file is unreadable, or phase 1 is not written.
    """
    paths = {phase: path for phase in PHASES if (path := path_of(folder, phase)) is not None}
    if not paths:
        raise ValueError(
            f"{folder} contains no starters for phases 1 to 5: name a folder that contains labs/ or phase1.py"
        )
    texts, unwritten, with_bom = dict[int, str](), dict[int, list[str]](), set[int]()
    for phase, path in paths.items():
        content = path.read_bytes()
        if complaint := complaint_about_content(content) or refused_import(content):
            raise ValueError(f"{path}: {complaint}")
        try:
            text = content.decode("utf-8-sig")
            unwritten[phase] = unwritten_in(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
        if not unwritten[phase]:
            texts[phase] = text
            with_bom |= {phase} if content.startswith(BOM_UTF8) else set()
    if 1 not in texts:
        missing = unwritten[1][0] if 1 in unwritten else "Phase 1"
        raise ValueError(f"a viva needs phase 1 for its run, but {missing} is not written yet")
    if 2 not in texts:
        texts.pop(4, None)  # phase 4's prefix cache shares blocks, which needs phase 2
    return Files(texts, with_bom)


def path_of(folder: Path, phase: int) -> Path | None:
    """Return the file of a phase in a folder, or None."""
    inside = [Path("labs", lab_folder(phase), "starter.py"), Path(lab_folder(phase), "starter.py")]
    named = [
        path
        for path in sorted(folder.glob("*.py"))
        if (found := OWN_FILE.fullmatch(path.name)) and int(found[1]) == phase
    ]
    return next((path for path in [*(folder / one for one in inside), *named] if path.is_file()), None)
