"""Records the public scenarios again with a different vLLM release, and compares the result with both recorded
releases.

Run it as `python -m mini_vllm_labs.upkeep.next_release VERSION` on a system with fork. `docs/next-release.md` explains
the report.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.peer_process import JsonLines, PeerError, vllm_python
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, PUBLIC_FILES, Scenario, read_scenarios
from mini_vllm_labs.upkeep.next_release.report import ScenarioVerdict, judged, summary
from mini_vllm_labs.upkeep.vllm_peer.install import install

FILES = (*PUBLIC_FILES, *NEWER_FILES)


def main() -> int:
    """Install the release if it is missing, record, and print the report; return 1 if recording fails."""
    parser = argparse.ArgumentParser(
        prog="python -m mini_vllm_labs.upkeep.next_release", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("version", help="a release of vLLM, for example 0.33.0")
    parser.add_argument("--seconds", type=float, default=20, help="the most that a scenario may take (default: 20)")
    parser.add_argument("--out", type=Path, help="default: the folder `recorded` in the release's environment")
    asked = parser.parse_args()
    try:
        python = vllm_python(asked.version)
        if not python.exists():
            install(asked.version)
        out = asked.out or python.parents[1] / "recorded"
        arguments = ["mini_vllm_labs.upkeep.next_release.record", str(asked.seconds), *map(str, FILES)]
        process = JsonLines(f"vLLM {asked.version}", python, arguments, {"PYTHONHASHSEED": "0"})
        with closing(process) as outcomes:
            found = written(asked.version, outcomes, out)
    except ValueError as error:
        parser.error(str(error))
    except PeerError as error:
        print(f"{error}\nA missing module belongs into upkeep/vllm_peer/requirements-newer.txt.", file=sys.stderr)
        return 1
    text = "\n".join(summary(asked.version, found))
    print(text)
    (out / "summary.txt").write_text(text + "\n", encoding="utf-8")
    print(f"\nIn {_shown(out)}: findings.tsv has a line per scenario; the traces are beside it.")
    return 0


def written(version: str, outcomes: Iterable[Mapping[str, Any]], out: Path) -> list[ScenarioVerdict]:
    """Write the traces and a line per scenario into the folder `out`, and return the findings."""
    out.mkdir(parents=True, exist_ok=True)
    scenarios, findings = _scenarios(), list[ScenarioVerdict]()
    with ExitStack() as files:
        lines = files.enter_context((out / "findings.tsv").open("w", encoding="utf-8"))
        traces = {
            path.name: files.enter_context(
                gzip.open(out / f"{path.name.removesuffix('.gz')}.gz", "wt", encoding="utf-8")
            )
            for path in FILES
        }
        for (file, scenario), outcome in zip(scenarios, outcomes, strict=True):
            if outcome["name"] != scenario.name:
                raise PeerError(f"vLLM {version} responded with {outcome['name']!r} to {scenario.name!r}")
            findings.append(judged(scenario, outcome))
            print(findings[-1].line, file=lines)
            if "trace" in outcome:
                config = {**scenario.line["config"], "version": version}
                print(json.dumps({**scenario.line, "config": config, "trace": outcome["trace"]}), file=traces[file])
            if len(findings) % 200 == 0:
                print(f"{len(findings):,} scenarios recorded", file=sys.stderr, flush=True)
    return findings


def _scenarios() -> Iterator[tuple[str, Scenario]]:
    return ((path.name, scenario) for path in FILES for scenario in read_scenarios(path))


def _shown(path: Path) -> Path:
    return path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else path


if __name__ == "__main__":
    sys.exit(main())
