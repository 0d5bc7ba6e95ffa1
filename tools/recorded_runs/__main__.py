"""`python -m tools.recorded_runs` records all notebooks; with names such as `05`, only these."""

import sys

from course.notebook.records import FOLDER, write_lines
from mini_vllm.assembly.lineup import CHECKOUT
from tools.recorded_runs.make import record_notebook


def main(names: list[str]) -> None:
    """Record the notebooks whose names begin so, or all."""
    for path in sorted((CHECKOUT / "notebooks").glob("*.ipynb")):
        if names and not path.stem.startswith(tuple(names)):
            continue
        lines, target = record_notebook(path), FOLDER / f"{path.stem}.xz"
        target.unlink(missing_ok=True)
        if lines:
            write_lines(target, lines)
            size = target.stat().st_size
            print(f"{target.relative_to(CHECKOUT)}: {len(lines)} runs, {size:,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
