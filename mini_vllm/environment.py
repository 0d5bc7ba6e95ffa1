"""Defines every environment variable that this project reads, with its type, default and effect.

`mini-vllm info` lists the variables that are set.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Variable(Generic[Value]):
    """An environment variable; `read` parses its value and raises `ValueError` if it is invalid."""

    name: str
    default: Value
    read: Callable[[str], Value]
    about: str
    is_secret: bool = False

    def get(self) -> Value:
        """Return the value, or the default if it is unset or empty. Raises `ValueError` naming the variable."""
        text = os.environ.get(self.name)
        if not text:
            return self.default
        try:
            return self.read(text)
        except ValueError as error:
            raise ValueError(f"the environment variable {self.name}: {error}; got {text!r}") from error


def _switch(text: str) -> bool:
    return text != "0"


def _positive(text: str) -> float:
    if not 0 < (number := float(text)) < float("inf"):
        raise ValueError("expected a number greater than 0")
    return number


def _count(text: str) -> int:
    if (number := int(text.partition(",")[0])) < 1:  # OpenMP accepts a list with one number per level
        raise ValueError("expected at least 1")
    return number


LAB_IMPL = Variable("LAB_IMPL", "", str, "whose code runs in which phase, as in starter:1-3,solution:4-6")
LAB_CHECKS = Variable(
    "LAB_CHECKS", True, _switch, "0: run the learner's scheduler inside vLLM without checks, to measure it"
)
GRADE_SECONDS = Variable("MINI_VLLM_GRADE_SECONDS", 5.0, _positive, "seconds of CPU time for a graded test")
GRADE_FORK = Variable("MINI_VLLM_GRADE_FORK", True, _switch, "0: grade in fresh processes instead of forked ones")
COLLECT = Variable(
    "MINI_VLLM_COLLECT", "", str, "set by `mini-vllm grade`: the file to which pytest writes the tests that it found"
)
NUM_THREADS = Variable(
    "OMP_NUM_THREADS", 0, _count, "number of torch threads; if unset, whatever is fastest at the time"
)
SPIN_COUNT = Variable("GOMP_SPINCOUNT", "50000", str, "how often a waiting thread checks for work before it sleeps")
WAIT_POLICY = Variable("OMP_WAIT_POLICY", "", str, "ACTIVE: waiting threads spin forever; PASSIVE: they sleep at once")
CACHE = Variable("XDG_CACHE_HOME", "", str, "the folder for compiled kernels; if unset, ~/.cache")
CHROMIUM = Variable("CHROMIUM", "", str, "the browser for tests and pictures; if unset, one that is found on the path")
API_KEY = Variable(
    "OPENAI_API_KEY", "", str, "the key that `mini-vllm bench serve` sends to another server", is_secret=True
)
REQUIRED = tuple(
    Variable(f"REQUIRE_{name}", False, _switch, f"tests that need {what} fail without it instead of being skipped")
    for name, what in {
        "CHROMIUM": "a browser",
        "COMPILER": "a C compiler",
        "JAIL": "bubblewrap",
        "PROMETHEUS": "Prometheus",
        "REVEAL": "reveal.js",
        "SITE": "the website",
        "VLLM": "vLLM's scheduler",
        "VLLM_CPU": "a whole vLLM",
    }.items()
)
THREADS = (NUM_THREADS, SPIN_COUNT, WAIT_POLICY)
OWN = (LAB_IMPL, LAB_CHECKS, GRADE_SECONDS, GRADE_FORK, COLLECT, *THREADS, CACHE, CHROMIUM, API_KEY)
VARIABLES: tuple[Variable[Any], ...] = (*OWN, *REQUIRED)


def bound_spinning() -> None:
    """Make a waiting OpenMP thread sleep after 0.7 ms instead of 4 ms, unless the user chose how threads wait.

    Shorter waits are frequent within a step, and waking a thread takes longer than most of them. This works only before
    torch is imported, because GCC's OpenMP library reads its variables when it is loaded. Child processes inherit the
    setting.
    """
    if not WAIT_POLICY.get():
        os.environ.setdefault(SPIN_COUNT.name, SPIN_COUNT.default)
