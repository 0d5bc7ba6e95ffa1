"""Composes the student edition (the files that a learner needs, without solutions) and searches it for leaks."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.runner.c_starter import unwritten_task
from mini_vllm_labs.classroom.packages import COURSE, folder_of, for_learners
from mini_vllm_labs.classroom.student_edition.texts import ReleaseError, adapted
from mini_vllm_labs.runs.starter_status import LABS, touched_functions, touched_in

SECRETS = ("solutions/*.py", "solutions/*.c", "tests/alternatives/*.diff", "tests/mutants/**/*.diff")
SEAMS = ("core/interfaces.py", "electives/speculation.py", "electives/async_scheduling.py")
MIN_SECRET_CHARACTERS = 41
MAX_IN_A_ROW = 2
MAX_IN_A_FILE = 5


def secret_lines(checkout: Path) -> set[str]:
    """Return the long lines of solutions, mutants and alternatives that appear in neither starters nor seams."""
    public = set[str]()
    for path in (*checkout.glob("labs/*/starter*.*"), *(checkout / "mini_vllm" / name for name in SEAMS)):
        public |= set(long_lines(path.read_text(encoding="utf-8")))
    secret = set[str]()
    for pattern in SECRETS:
        for path in checkout.glob(pattern):
            secret |= set(long_lines(path.read_text(encoding="utf-8")))
    return {line for line in secret - public if not line.startswith(("from ", "import "))}


def leaks(edition: Mapping[str, bytes], secret: Iterable[str]) -> list[str]:
    """Return the files with more than two secret lines in a row, or more than five in total.

    One or two such lines may be a coincidence, because the engine and the tests use the same names.
    """
    secret, found = set(secret), []
    for path, content in edition.items():
        longest = total = row = 0
        for line in long_lines(content.decode(errors="replace")):
            row = row + 1 if line in secret else 0
            total, longest = total + (row > 0), max(longest, row)
        if longest > MAX_IN_A_ROW or total > MAX_IN_A_FILE:
            found.append(path)
    return found


def long_lines(text: str) -> Iterator[str]:
    """Yield the lines that are long enough to be distinctive, without indentation, comments or diff marks.

    Notebooks and other JSON files contain lines as quoted strings, with escaped line ends.
    """
    for line in text.replace('\\"', '"').replace("\\n", "\n").splitlines():
        normal = " ".join(line.lstrip('+-# \t"').split())
        if len(normal) >= MIN_SECRET_CHARACTERS:
            yield normal


PEERS = "vllm_inside vllm_peer openvino_peer llama_cpp_peer".split()
UPKEEP = ("__init__.py", "build_backend", "peer_environment.py", "tiny_model", *PEERS)
ALSO_RELEASED = (
    *("LICENSE", "Makefile", ".gitignore", "constraints.txt", "environment.yml", "postBuild", "pyproject.toml"),
    *("lab.py", "notebooks/", "docs/architecture.md", "docs/pictures/"),
    *(f"mini_vllm_labs/upkeep/{one}" for one in UPKEEP),
)

TEMPLATES = "mini_vllm_labs/upkeep/student_edition/"
KEPT = (TEMPLATES, "mini_vllm_labs/cli/classroom/")
CACHES = ("__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")


def compose(checkout: Path = CHECKOUT) -> dict[str, bytes]:
    """Return the student edition as a mapping from path to content.

    Raises `ReleaseError` if it would contain a solution.
    """
    if not (checkout / "solutions").is_dir():
        raise ReleaseError("this checkout has no solutions/: it is already a student edition")
    require_untouched_starters(checkout)
    released = (*map(folder_of, for_learners(checkout)), *ALSO_RELEASED)
    edition = {
        path: adapted(path, (checkout / path).read_bytes())
        for path in files_of(checkout)
        if (path.startswith(released) or is_shared(path)) and not path.startswith(KEPT)
    }
    templates = checkout / TEMPLATES
    for template in sorted(path for path in templates.rglob("*") if path.is_file()):
        edition[template.relative_to(templates).as_posix()] = template.read_bytes()
    if found := leaks(edition, secret_lines(checkout)):
        raise ReleaseError(f"nothing was written, because {', '.join(found)} contains solution code")
    return edition


def is_shared(path: str) -> bool:
    """Return whether a file is a module of `mini_vllm_labs` that is not in any of its packages."""
    return path.endswith(".py") and path.startswith(folder_of(COURSE)) and path.count("/") == 1


def write(edition: Mapping[str, bytes], folder: Path) -> None:
    """Write the edition to a new or empty folder. Raises `ReleaseError` if the folder is neither new nor empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ReleaseError(f"{folder} exists and is not empty, so nothing was written: name a new or empty folder")
    if folder.resolve().is_relative_to(CHECKOUT):
        raise ReleaseError(f"{folder} is inside this checkout, next to the solutions: name a folder outside it")
    for path, content in edition.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def require_untouched_starters(checkout: Path) -> None:
    """Raise `ReleaseError` if a function in a starter has been filled in."""
    touched = []
    for phase in LABS:
        try:
            names = touched_functions(phase, checkout)
        except (OSError, SyntaxError) as error:
            raise ReleaseError(f"the starter of phase {phase} cannot be read: {error}") from error
        touched += [f"phase {phase} {name}" for name in names]
    for path in checkout.glob("labs/*/starter_*.py"):
        touched += [f"{path.name} {name}" for name in touched_in(path)]
    for path in checkout.glob("labs/*/starter_*.c"):
        touched += [] if unwritten_task(path.read_text(encoding="utf-8")) else [path.name]
    if touched:
        raise ReleaseError(
            f"some starters are not empty: {', '.join(touched)}. Each body must contain only its docstring and our "
            "NotImplementedError (in C, our #error); `git checkout -- labs/*/starter*` restores them"
        )


def require_tracked_code(checkout: Path = CHECKOUT) -> None:
    """Raise `ReleaseError` for untracked code in `labs/`, because a scratch file may contain a solution."""
    untracked = [path for path in _git(checkout, "-o", "labs") or [] if path.endswith((".py", ".c", ".h"))]
    if untracked:
        raise ReleaseError(
            f"untracked: {', '.join(untracked)}. Commit the files that belong to the course, and remove the others"
        )


def files_of(checkout: Path) -> list[str]:
    """Return tracked files, and new files that are not ignored; without git, return all files except caches."""
    paths = _git(checkout, "-co")
    if paths is None:
        paths = [path.relative_to(checkout).as_posix() for path in checkout.rglob("*")]
    return sorted(path for path in set(paths) if (checkout / path).is_file() and not set(CACHES) & set(path.split("/")))


def _git(checkout: Path, *options: str) -> list[str] | None:
    if not (checkout / ".git").exists():
        return None
    command = ["git", "ls-files", "-z", "--exclude-standard", *options]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [path for path in done.stdout.split("\0") if path]
