"""`python -m tests.mutants.answers` records the reference's answers for the cases of the graded tests.

Run it after changing cases. Running the graded tests on the reference shows that the answers are current.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from typing import Any

import pytest

from mini_vllm_labs.grading.labtest.recorded import FOLDER, Answers, file_of, packed
from tests.mutants.catalog import PHASES, module_name


def main() -> int:
    """Write the answers of the phases; return 1 if a test fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.answers", description=__doc__)
    parser.add_argument("--phase", type=int, action="append", choices=PHASES, dest="phases", help="only this phase")
    os.environ["LAB_IMPL"] = "solution"
    files: defaultdict[str, defaultdict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))

    def record(self: Answers, yours: Any) -> Any:
        recorded = files[file_of(self.test)][self.test]
        recorded.append(yours() if callable(yours) else yours)
        return recorded[-1]

    Answers.__call__ = record  # type: ignore[method-assign]
    FOLDER.mkdir(exist_ok=True)
    for phase in parser.parse_args().phases or PHASES:
        if pytest.main([f"labs/{module_name(phase)}", "-q", "-p", "no:cacheprovider"]):
            return 1
    for file, recorded in files.items():
        lines = (f"{json.dumps(test)}: {json.dumps(packed(answers))}" for test, answers in recorded.items())
        text = ",\n".join(lines)
        (FOLDER / file).write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
