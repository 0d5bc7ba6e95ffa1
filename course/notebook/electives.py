"""Which phases run in a notebook: the electives are there where a run uses them."""

from dataclasses import astuple

from mini_vllm.assembly.lineup import PHASE_NAMES, Lineup, parse_lineup
from mini_vllm.assembly.parts import Impl
from mini_vllm.config import EngineConfig

SPECULATION, ASYNC = 7, 8


def whole_lineup(text: str, phase: int) -> Lineup:
    """Return the lineup that a text names in the notebook of a phase.

    In an elective's notebook `starter` and `solution` alone mean the electives too, up to that one.
    """
    lineup = parse_lineup(text)
    if phase > len(PHASE_NAMES) and text.strip() in ("starter", "solution"):
        return Lineup(*[lineup.scheduler] * phase)
    return lineup


def cut_lineup(whole: Lineup, last: int, config: EngineConfig | None) -> Lineup:
    """Return phases 1 to `last` of a lineup; of the electives `last` itself, or those that a `config` turns on."""
    kept = set(range(1, min(last, len(PHASE_NAMES)) + 1))
    kept |= {last} if config is None else electives_of(config)
    impls: tuple[Impl, ...] = astuple(whole)
    absent: Impl = "absent"
    return Lineup(*(impl if phase in kept else absent for phase, impl in enumerate(impls, start=1)))


def electives_of(config: EngineConfig) -> set[int]:
    """Return the electives without which an engine refuses a config."""
    drafts = {SPECULATION} if config.speculative_config is not None else set[int]()
    return drafts | ({ASYNC} if config.async_scheduling else set[int]())
