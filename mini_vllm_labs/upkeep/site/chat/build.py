"""Writes the page `chat/`: the live page's files, a worker with Pyodide, and the compiled engine."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.pictures.picture import read_asset
from mini_vllm_labs.upkeep.site.downloads import run, zipped

HERE = Path(__file__).parent
LIVE = "mini_vllm_labs/serving/live/page/"
MODEL = "mini_vllm/embedded_model/model.safetensors"
CODE = re.compile(r"(?:mini_vllm|course|serving/(?:__init__|observed|live/))[^-]*\.py")
UNUSED = re.compile(
    r"mini_vllm_labs/(?:grading|notebook|simulation|pictures/(?:browser|terminal)|runs/(?:oracle|sandbox))/"
)
ASSETS = re.compile(r"mini_vllm_labs/pictures/.*\.css|mini_vllm/runner/tab/.*\.js|mini_vllm/embedded_model/[^/]*\.json")
SCRIPT = '<script type="module" src="tab.js"></script>\n'
NO_SCRIPT = "<noscript><p>This page computes everything here in your browser: it needs JavaScript.</p></noscript>\n"


def write_chat(edition: Mapping[str, bytes], pyodide: Path, folder: Path) -> None:
    """Write the page into a folder next to `pyodide/`, and write the model's weights into `pyodide/`. Needs node.

    Phases 1 to 5 come from the reference, without source or docstrings. Raises `DownloadError` if the phases do not
    compile.
    """
    pages = folder / "live/page"
    pages.mkdir(parents=True)
    for path, content in edition.items():
        if path.startswith(LIVE):
            (pages / path.removeprefix(LIVE)).write_bytes(content)
    (pages / "shared.js").write_text(shared_code(), "utf-8")
    html = (pages / "index.html").read_text("utf-8")
    html = html.replace('<script type="module"', f'{SCRIPT}<script type="module"', 1)
    html = html.replace("<body>\n", f"<body>\n{NO_SCRIPT}", 1)
    (folder / "index.html").write_text(html, "utf-8")
    (pages / "index.html").unlink()
    shutil.copytree(HERE / "page", folder, dirs_exist_ok=True)
    (folder / "engine.zip").write_bytes(compiled_engine(edition, pyodide, folder.with_name("engine")))
    (folder.parent / "pyodide" / Path(MODEL).name).write_bytes((CHECKOUT / MODEL).read_bytes())


def shared_code() -> str:
    """Return the JavaScript that the page shares with the notebooks' player."""
    names = "make, button, choice, travel, isMotionWanted, mark, about, keyOf, TRAVEL"
    return "".join(map(read_asset, ("controls.js", "motion.js", "following.js"))) + f"export {{ {names} }};\n"


def compiled_engine(edition: Mapping[str, bytes], pyodide: Path, work: Path) -> bytes:
    """Return a zip for the worker, with the compiled code that it imports and the files that it reads."""
    files = {path: content for path, content in edition.items() if belongs(path)}
    files |= {
        path.relative_to(CHECKOUT).as_posix(): path.read_bytes()
        for path in [CHECKOUT / "solutions/__init__.py", *(CHECKOUT / "solutions").glob("phase[1-5]_*.py")]
    }
    for path, content in files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_bytes(content)
    run("node", HERE / "compile.mjs", pyodide.resolve(), work.resolve(), cwd=work)
    packed = zipped(
        {path.relative_to(work).as_posix(): path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()}
    )
    shutil.rmtree(work)
    return packed


def belongs(path: str) -> bool:
    return bool(ASSETS.fullmatch(path) or (CODE.fullmatch(path) and not UNUSED.match(path)))
