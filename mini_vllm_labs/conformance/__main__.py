"""Runs the suite without the rest of the course, as `python -m` with this package. This package uses only the standard
library."""

import argparse
import json
import sys
from pathlib import Path

from mini_vllm_labs.conformance.scenarios import DRAWN, FILES, HERE, KINDS
from mini_vllm_labs.conformance.suite import Options, run

PROGRAM = "vllm-scheduler-conformance"


def main(arguments: list[str] | None = None) -> int:
    """Run the suite; exit code 0: all match, 1: failures or nothing run, 2: a bad option, trace or greeting."""
    given = sys.argv[1:] if arguments is None else arguments
    split = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(PROGRAM, f"{PROGRAM} [options] -- COMMAND...", __doc__)
    for name in ("release", "kind", "name"):
        legal = {"release": f" ({', '.join(FILES)})", "kind": f" ({', '.join((*KINDS, *DRAWN))})"}.get(name, "")
        parser.add_argument(f"--{name}", action="append", default=[], help=f"only this {name}, repeatable{legal}")
    parser.add_argument("--traces", action="append", default=[], type=Path, help="a file of traces, repeatable")
    parser.add_argument("--timeout", type=float, default=Options.timeout, help="seconds for one answer (5)")
    parser.add_argument("--jobs", type=int, default=Options.jobs, help="processes of the engine at once (2)")
    parser.add_argument("--junit", type=Path, help="write JUnit XML here")
    parser.add_argument("--badge", type=Path, help="write the JSON of a shields.io badge here")
    one = parser.parse_args(given[:split])
    options = Options(one.release, one.kind, one.traces, one.name, one.timeout, one.jobs, one.junit, one.badge)
    rules = HERE / "rules.json"
    try:
        return run(given[split + 1 :], options, print, json.loads(rules.read_text()) if rules.is_file() else None)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
