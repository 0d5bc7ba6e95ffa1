"""Records scenarios with the vLLM in this environment.

`python -m mini_vllm_labs.upkeep.next_release.record SECONDS FILE...` writes one JSON line per scenario. The line
contains the scenario's `name`, and one of `trace`, `refused`, `crashed` and `endless`. SECONDS is the maximum time that
a scenario may take.
"""

import gc
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from mini_vllm_labs.inside_vllm.stock_scheduler import make_scheduler
from mini_vllm_labs.runs.parity.scenario import Scenario, read_scenarios
from mini_vllm_labs.upkeep.next_release.bounded import bounded
from mini_vllm_labs.upkeep.next_release.recorder import Recorder


def record(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario's trace. Raises `ValueError` if the release rejects it."""
    return Recorder(scenario).run()


if __name__ == "__main__":
    paths = list(map(Path, sys.argv[2:]))
    # after this call, every fork inherits whatever vLLM prepares only once
    make_scheduler(next(read_scenarios(paths[0])).line["config"])
    gc.freeze()
    for scenario in (scenario for path in paths for scenario in read_scenarios(path)):
        outcome = bounded(partial(record, scenario), float(sys.argv[1]))
        print(json.dumps({"name": scenario.name} | outcome), flush=True)
