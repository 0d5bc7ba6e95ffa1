"""`mini-vllm info` checks whether this machine is ready. Each check returns its finding and the fix."""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT, default_lineup_text, parse_lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.environment import LAB_IMPL, VARIABLES
from mini_vllm.installation import CONSTRAINTS, PROJECT, install_command, pip_install
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import TURNS_ON
from mini_vllm_labs.runs.starter_status import describe, unwritten_tasks, written_lineup

Status = Literal["OK", "warn", "missing", "wrong"]

MINIMUM_PYTHON = (3, 11)
EMBEDDED_MODEL = CHECKOUT / "mini_vllm" / "embedded_model"
REQUIRED = ("torch", "transformers", "accelerate", "numpy", "psutil", "rich", "typer")
FOR_NOTEBOOKS = ("jupyterlab", "ipywidgets", "anywidget")
OPTIONAL = {  # maps an extra to the package that shows its presence, and to what is missing without it
    "serve": ("fastapi", "no `mini-vllm serve`, and notebook 12 plays a recorded run"),
    "structured": ("llguidance", "no JSON schemas and no grammars; regexes work"),
    "judge": ("pyseccomp", "the judge's jail does not keep starters from starting processes"),
    "triton": ("triton", "no Triton kernels, which need a GPU"),
}
ONLY_ON_LINUX = ("judge", "triton")
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
STYLES = {"OK": "green", "warn": "yellow", "missing": "bold red", "wrong": "bold red"}


@dataclass(frozen=True)
class Finding:
    """One line of the report. If the status is `missing` or `wrong`, the course will not work."""

    what: str
    status: Status
    found: str
    fix: str = ""

    @property
    def is_bad(self) -> bool:
        return self.status in ("missing", "wrong")


def all_checks() -> list[Finding]:
    pinned = read_constraints(CONSTRAINTS)
    return [
        check_python(),
        *(check_package(name, pinned, required=True) for name in REQUIRED),
        *(check_package(name, pinned, required=False) for name in FOR_NOTEBOOKS),
        check_kernel(Path(sys.prefix)),
        *check_torch(),
        *check_load(),
        *(check_extra(extra) for extra in OPTIONAL if sys.platform == "linux" or extra not in ONLY_ON_LINUX),
        *check_compiler(),
        check_model(EMBEDDED_MODEL),
        Finding("course", "OK", str(CHECKOUT)),
        check_solutions(),
        *check_lineup(),
        *check_variables(),
    ]


def read_constraints(path: Path) -> dict[str, str]:
    """Return the pinned versions, keyed by package name, or an empty dict if the file does not exist (installed
    package)."""
    if not path.exists():
        return {}
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {name.lower(): version for name, _, version in (line.partition("==") for line in lines) if version}


def check_python() -> Finding:
    """Check that Python is 3.11 or newer."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < MINIMUM_PYTHON:
        return Finding("Python", "wrong", version, "install Python 3.11 or newer and make the environment with it")
    return Finding("Python", "OK", version)


def check_package(name: str, pinned: dict[str, str], *, required: bool) -> Finding:
    """Check that a package is installed, preferably in the version given in `constraints.txt`."""
    install = install_command()
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        why = "" if required else " (only the notebooks need it)"
        return Finding(name, "missing" if required else "warn", "not installed", install + why)
    wanted = pinned.get(name)
    if wanted is not None and found.partition("+")[0] != wanted:
        return Finding(name, "warn", f"{found}, tested with {wanted}", install)
    return Finding(name, "OK", found)


def check_kernel(environment: Path) -> Finding:
    """Check for the notebooks' kernel, which is part of the course, except in old installations."""
    if (environment / "share" / "jupyter" / "kernels" / PROJECT / "kernel.json").is_file():
        return Finding("kernel", "OK", "mini-vLLM Labs")
    return Finding("kernel", "warn", "not installed (only the notebooks need it)", pip_install("-e", str(CHECKOUT)))


def check_torch() -> Iterator[Finding]:
    """Report which device torch computes on, and on how many threads."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    if torch.cuda.is_available():
        yield Finding("device", "OK", f"CUDA: {torch.cuda.get_device_name()}")
    else:
        yield Finding("device", "OK", "CPU (no CUDA device; the course needs none)")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = torch.get_num_threads()
    found = f"{threads} for torch, {usable} CPUs"
    if threads > usable:
        yield Finding("threads", "warn", found, f"set OMP_NUM_THREADS={usable}: more threads than CPUs are very slow")
    else:
        yield Finding("threads", "OK", found)


def check_load() -> Iterator[Finding]:
    """Warn about busy programs, which make all timings unreliable and make many threads slower than a few."""
    load, usable = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
    if load > usable:
        fix = "end other programs before you measure"
        yield Finding("load", "warn", f"load average {load:.1f} on {usable} CPUs", fix)


def check_extra(extra: str) -> Finding:
    """Report an optional extra, which counts as installed if its first package is installed."""
    package, costs = OPTIONAL[extra]
    if importlib.util.find_spec(package) is None:
        return Finding(f"[{extra}]", "OK", f"{package} is not installed (optional): {costs}", install_command(extra))
    return Finding(f"[{extra}]", "OK", f"{package} {metadata.version(package)}")


def check_compiler() -> Iterator[Finding]:
    """Look for the optional C compiler: without one, attention on a CPU runs in torch."""
    if importlib.util.find_spec("torch") is None:
        return
    from mini_vllm.runner.c_library import can_compile, find_compiler

    found = find_compiler() if can_compile() else None
    yield Finding("C compiler", "OK", found or "none that works (optional; without it decodes use torch's attention)")


def check_model(folder: Path) -> Finding:
    """Check that the embedded model is complete and matches the SHA-256 in its README."""
    fetch = "git checkout -- mini_vllm/embedded_model"
    absent = [name for name in MODEL_FILES if not (folder / name).exists()]
    if absent:
        return Finding("embedded model", "missing", f"no {', '.join(absent)}", fetch)
    readme = folder / "README.md"
    wanted = re.search(r"\b[0-9a-f]{64}\b", readme.read_text(encoding="utf-8")) if readme.exists() else None
    if wanted is None:
        return Finding("embedded model", "warn", "its README names no SHA-256", fetch)
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != wanted[0]:
        return Finding("embedded model", "wrong", f"SHA-256 {found[:12]}..., README has {wanted[0][:12]}...", fetch)
    return Finding("embedded model", "OK", f"SHA-256 {found[:12]}... as in its README")


def check_solutions() -> Finding:
    """Report whether there are reference solutions; a student edition has none and needs none."""
    if solutions_exist():
        return Finding("solutions/", "OK", "there")
    return Finding("solutions/", "OK", "not there: a student edition")


def check_lineup() -> Iterator[Finding]:
    """Check that `LAB_IMPL` is a lineup, and show whose code runs in each phase."""
    text = LAB_IMPL.get()
    if not text and not solutions_exist():
        yield from check_written()
        return
    try:
        lineup = parse_lineup(text or default_lineup_text())
    except ValueError as error:
        yield Finding("LAB_IMPL", "wrong", str(error), "unset LAB_IMPL, or set it as in LAB_IMPL=starter:1-3")
        return
    yield Finding("LAB_IMPL", "OK", text or f"not set, so {lineup}")
    for item in describe(lineup).split(", "):
        phase, _, whose = item.partition(": ")
        yield Finding(f"  {phase}", "OK", whose)


def check_variables() -> Iterator[Finding]:
    """List the other environment variables that are set, and their effects."""
    for variable in VARIABLES:
        if variable is LAB_IMPL or not (text := os.environ.get(variable.name)):
            continue
        try:
            variable.get()
            yield Finding(variable.name, "OK", f"{'set' if variable.is_secret else text} ({variable.about})")
        except ValueError as error:
            yield Finding(variable.name, "wrong", str(error), f"unset {variable.name}")


def check_written() -> Iterator[Finding]:
    """In a student edition without `LAB_IMPL`, report which phases have been written."""
    lineup = written_lineup()
    yield Finding("LAB_IMPL", "OK", f"not set: commands run {lineup or 'nothing yet'}, tests grade all six phases")
    for phase, name in enumerate(ALL_NAMES, start=1):
        tasks = unwritten_tasks(phase)
        found = f"next is {tasks[0]}" if tasks else "written" + how_to_use(phase)
        yield Finding(f"  {phase} {name}", "OK", found)


def how_to_use(phase: int) -> str:
    """Return which option enables an elective, or an empty string for a phase of the course."""
    return f"; serve, chat and generate use it with {TURNS_ON[phase]}" if phase in TURNS_ON else ""


@friendly
def info(
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Show the contents of a model's folder, or why it is refused.")
    ] = None,
) -> None:
    """Check the environment, or a model's folder, and print the fix for each problem.

    Exit code 1: something required is wrong. 2: the folder is rejected.
    """
    console = make_console()
    if model is not None:
        from mini_vllm_labs.cli.model_report import report

        for heading, text in report(model):
            console.print(f"{heading:<15}{text}", markup=False, soft_wrap=True)
        return
    checks = all_checks()
    console.print(check_table(checks))
    bad = [check.what for check in checks if check.is_bad]
    warned = sum(check.status == "warn" for check in checks)
    if bad:
        console.print(f"Not ready: {', '.join(bad)}. The last column has the fixes.", markup=False)
        raise typer.Exit(1)
    warnings = f", with {warned} warning{'s' * (warned > 1)}" if warned else ""
    console.print(f"Ready{warnings}. Next: mini-vllm demo.", markup=False)


def check_table(checks: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", min_width=7)
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold", ratio=1)
    needs_fixes = any(check.fix for check in checks)
    if needs_fixes:
        table.add_column("what to do", overflow="fold", ratio=1)
    for check in checks:
        fix = [Text(check.fix)] if needs_fixes else []
        table.add_row(Text(check.status, STYLES[check.status]), Text(check.what), Text(check.found), *fix)
    return table
