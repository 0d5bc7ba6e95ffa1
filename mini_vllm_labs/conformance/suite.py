"""Runs the suite on one engine and writes its report."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mini_vllm_labs.conformance.ci_files import write_badge, write_junit
from mini_vllm_labs.conformance.drive import ScenarioOutcome, judge_all
from mini_vllm_labs.conformance.process import BrokenEngineError, EngineClient
from mini_vllm_labs.conformance.report import Rules, asked, conclusion, failure, greeting, in_common, remarks, table
from mini_vllm_labs.conformance.scenarios import DRAWN, FILES, Message, RecordedScenario, chosen

Draw = Callable[[Sequence[str], Sequence[str]], Iterable[Message]]


@dataclass(frozen=True)
class Options:
    """The selection of scenarios.

    Without `releases`, the selection covers the release that the engine follows, or all releases; without `kinds`, all
    recorded kinds.

    `draw` yields the lines of drawn scenarios for releases and kinds.
    """

    releases: Sequence[str] = ()
    kinds: Sequence[str] = ()
    files: Sequence[Path] = ()
    names: Sequence[str] = ()
    timeout: float = 5.0
    jobs: int = 2
    junit: Path | None = None
    badge: Path | None = None
    draw: Draw | None = None


def run(
    command: Sequence[str],
    options: Options,
    say: Callable[[str], object],
    rules: Rules | None = None,
    draw: Callable[[ScenarioOutcome], object] = lambda verdict: None,
) -> int:
    """Run the scenarios, report through `say`, and return the exit code (0: all match; 1: failures or nothing run).

    `draw` shows the first failure as a picture. Raises `ValueError` for a bad option, trace or greeting.
    """
    if not 0 < options.timeout <= 3600:
        raise ValueError(f"--timeout must be greater than 0 and at most 3600 seconds, got {options.timeout:g}")
    if not 1 <= options.jobs <= 64:
        raise ValueError(f"--jobs must be from 1 to 64, got {options.jobs}")
    if not command:
        raise ValueError(
            "no engine was given: put its command after --, as in: mini-vllm conformance -- ./my-engine --flags"
        )
    start, rules = time.monotonic(), rules or {}
    engines = [EngineClient(command, options.timeout) for _ in range(options.jobs)]
    try:
        hello = engines[0].greet()
        follows = [hello["follows"]] if hello.get("follows") else list(FILES)
        scenarios = _wanted(options, options.releases or (list(FILES) if options.files else follows))
        say(greeting(hello))
        verdicts = judge_all(scenarios, engines, hello)
    except BrokenEngineError as error:
        raise ValueError(f"no greeting: {error}") from error
    finally:
        for engine in engines:
            engine.end(0)
    for line in ("", *table(verdicts), *remarks(verdicts)):
        say(line)
    failures = [one for one in verdicts if one.failed]
    if failures:
        for line in ("\nThe first failure:", *failure(failures[0], rules)):
            say(line)
        draw(failures[0])
        for line in in_common(verdicts, rules):
            say(line)
    if options.junit:
        write_junit(options.junit, verdicts)
    if options.badge:
        write_badge(options.badge, verdicts)
    say(f"\n{conclusion(verdicts)} ({time.monotonic() - start:.1f} s)")
    return int(bool(failures) or not asked(verdicts))


def _wanted(options: Options, releases: Sequence[str]) -> list[RecordedScenario]:
    found = list(chosen(releases, options.kinds, options.files))
    kinds = [kind for kind in DRAWN if kind in options.kinds]
    if kinds and options.draw and not options.files:
        found += map(RecordedScenario, options.draw(releases, kinds))
    known = [one.name for one in found]
    if unknown := [name for name in options.names if name not in known]:
        raise ValueError(
            f"{unknown[0]!r} is not one of the {len(found)} chosen scenarios, which include {', '.join(known[:5])}"
        )
    if not found:
        asked_for = ", ".join(options.kinds) or "any"
        raise ValueError(f"release {' or '.join(releases)} has no scenarios of kind {asked_for}")
    return [one for one in found if one.name in options.names] if options.names else found
