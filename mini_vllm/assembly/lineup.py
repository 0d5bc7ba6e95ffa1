"""Defines lineups, which choose an implementation of each phase.

`LAB_IMPL` names a lineup: `solution`, `starter`, or ranges such as `starter:1-3,solution:4-6`. A phase that is not
listed is absent. `solution` and `starter` without numbers mean phases 1 to 6. Electives, from phase 7 on, must be
listed, as in `starter:1-14` or `solution:1-6,starter:7`. `parts.py` imports a lineup's code.
"""

from dataclasses import astuple, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import get_args

from mini_vllm.assembly.parts import Impl, labs_exist, solutions_exist
from mini_vllm.environment import LAB_IMPL

CHECKOUT = Path(__file__).resolve().parents[2]
PHASE_NAMES = ("scheduler step", "block pool", "preemption", "prefix cache", "chunked prefill", "GPU runner")
ELECTIVE_NAMES = (
    "speculative decoding",
    "async scheduling",
    "structured output",
    "KV transfer",
    "admission gates",
    "sliding windows",
    "scheduling policies",
    "year of vLLM",
)
ALL_NAMES = PHASE_NAMES + ELECTIVE_NAMES


@dataclass(frozen=True, slots=True)
class Lineup:
    """The implementation of each phase, by number. Raises `ValueError` if the phases cannot work together."""

    scheduler: Impl = "absent"
    kv_cache: Impl = "absent"
    preemption: Impl = "absent"
    prefix_cache: Impl = "absent"
    chunking: Impl = "absent"
    runner: Impl = "absent"
    speculation: Impl = "absent"
    async_scheduling: Impl = "absent"
    structured_output: Impl = "absent"
    kv_transfer: Impl = "absent"
    gates: Impl = "absent"
    windows: Impl = "absent"
    policies: Impl = "absent"
    year: Impl = "absent"

    def __post_init__(self) -> None:
        for phase, impl in enumerate(astuple(self), start=1):
            if impl not in get_args(Impl):
                raise ValueError(f"phase {phase} must be one of {', '.join(get_args(Impl))}; got {impl!r}")
        if self.scheduler == "absent":
            raise ValueError("phase 1 (scheduler step) is required: without it, nothing is ever scheduled")
        if self.prefix_cache != "absent" and self.kv_cache == "absent":
            raise ValueError("phase 4 (prefix cache) needs phase 2 (block pool), because it shares blocks")

    def with_phase(self, phase: int, impl: Impl) -> "Lineup":
        """Return a copy with a different implementation of one phase. Raises `ValueError` as the constructor does."""
        impls: list[Impl] = list(astuple(self))
        impls[phase - 1] = impl
        return Lineup(*impls)

    def __getitem__(self, phase: int) -> Impl:
        """Return the implementation of a phase; phases are numbered from 1."""
        impls: tuple[Impl, ...] = astuple(self)
        return impls[phase - 1]

    def __str__(self) -> str:
        """Return the lineup in the shortest form that `parse_lineup` reads."""
        impls = astuple(self)
        if impls == (impls[0],) * len(PHASE_NAMES) + ("absent",) * len(ELECTIVE_NAMES):
            return str(impls[0])
        runs: list[str] = []
        for impl, group in groupby(enumerate(impls, start=1), key=itemgetter(1)):
            phases = [phase for phase, _ in group]
            if impl != "absent":
                runs.append(f"{impl}:{phases[0]}" + (f"-{phases[-1]}" if len(phases) > 1 else ""))
        return ",".join(runs)

    def describe(self) -> str:
        """Describe every phase and its implementation in one line; absent electives are omitted."""
        names = {"starter": "yours", "solution": "reference", "absent": "absent"}
        return ", ".join(
            f"{phase} {name}: {names[impl]}"
            for phase, (name, impl) in enumerate(zip(ALL_NAMES, astuple(self), strict=True), start=1)
            if phase <= len(PHASE_NAMES) or impl != "absent"
        )


def default_lineup_text() -> str:
    """Return the default of `LAB_IMPL`: the reference solutions if this checkout has them, otherwise the starters."""
    return "solution" if solutions_exist() else "starter"


def lineup_from_env() -> Lineup:
    """Return the lineup named by `LAB_IMPL`, or the default. Raises `ValueError` if `LAB_IMPL` is invalid."""
    return parse_lineup(LAB_IMPL.get() or default_lineup_text())


def parse_lineup(text: str) -> Lineup:
    """Read a lineup such as `starter`, `solution:1-4` or `starter:1-3,solution:4-6`.

    Raises `ValueError` with the invalid part and the legal forms.
    """
    if text.strip() in ("starter", "solution"):
        return Lineup(*[_impl(text)] * len(PHASE_NAMES))
    impls: list[Impl] = ["absent"] * len(ALL_NAMES)
    for item in text.split(","):
        name, colon, phases = item.partition(":")
        if not colon:
            raise ValueError(
                f"LAB_IMPL={text!r}: {item.strip()!r} does not name any phases; write it like 'starter:1-3'"
            )
        for phase in _phase_range(phases, text):
            if impls[phase - 1] != "absent":
                raise ValueError(f"LAB_IMPL={text!r}: phase {phase} is listed twice")
            impls[phase - 1] = _impl(name)
    return Lineup(*impls)


def _impl(name: str) -> Impl:
    match name.strip():
        case "starter" if labs_exist():
            return "starter"
        case "starter":
            raise ValueError(
                "no labs were found here: run the engine in the folder that `mini-vllm start my-labs` creates"
            )
        case "solution" if solutions_exist():
            return "solution"
        case "solution":
            raise ValueError("this checkout has no reference solutions because it is a student edition: use 'starter'")
    raise ValueError(f"an implementation must be 'starter' or 'solution', got {name.strip()!r}")


def _phase_range(phases: str, text: str) -> range:
    first, _, last = phases.strip().partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise ValueError(f"LAB_IMPL={text!r}: {phases!r} is not a phase (1 to {len(ALL_NAMES)}) or a range such as 1-3")
    chosen = range(int(first), int(last or first) + 1)
    if not chosen or chosen[0] < 1 or chosen[-1] > len(ALL_NAMES):
        raise ValueError(f"LAB_IMPL={text!r}: {phases!r} must be within phases 1 to {len(ALL_NAMES)}")
    return chosen
