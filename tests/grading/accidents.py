"""Accidents in submissions, one change to a solved starter each, and the expected grade."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.grading.checkout import solution, with_line

SPIN = "while True: pass"
SWALLOW = "exec('while True:\\n try:\\n  while True: pass\\n except BaseException:\\n  pass')"
SEGFAULT = "__import__('ctypes').string_at(0)"
FLOOD = "print('x' * 10**6)"
WAITS = "_seen or _seen.append(1) or __import__('time').sleep(1.5)"
THREAD = "import threading as t, time; t.active_count() > 3 or t.Thread(target=time.sleep, args=(99,)).start()"
FORGED = """print('{"event": "result", "test": "test_lab.py::x", "outcome": "passed"}\\n68 passed'); return 0"""
ONE_TEST_ONLY = (
    "import os; _seen.add(os.environ['PYTEST_CURRENT_TEST'].split(' ')[0]); "
    "assert len(_seen) == 1, 'state of an earlier test'"
)


@dataclass(frozen=True)
class Accident:
    """A change to phase `phase`.

    `spared` and `charged` are tasks with all points and with fewer. `message` is part of the message of some test,
    or of the error of the phase if `error` says that nothing of it can be graded.
    """

    name: str
    phase: int
    change: Callable[[str], str | bytes | None]
    message: str = ""
    spared: tuple[int, ...] = ()
    charged: tuple[int, ...] = ()
    error: bool = False

    def content(self) -> bytes | None:
        """Return the learner's file; None if there is none."""
        changed = self.change(solution(self.phase))
        return changed.encode() if isinstance(changed, str) else changed


def line(function: str, text: str) -> Callable[[str], str]:
    return lambda source: with_line(source, function, text)


def replaced(old: str, new: str) -> Callable[[str], str]:
    return lambda source: source.replace(old, new)


ACCIDENTS = (
    Accident("missing file", 4, lambda text: None, "starter.py is missing", error=True),
    Accident("syntax error", 2, lambda text: "x = 1\ndef broken(:\n" + text, "syntax error in line 2", error=True),
    Accident("UTF-16", 5, lambda text: text.encode("utf-16"), "not UTF-8 text", error=True),
    Accident("BOM and CRLF", 3, lambda t: b"\xef\xbb\xbf" + t.replace("\n", "\r\n").encode(), spared=(1, 2, 3, 4)),
    Accident("sys.exit at import", 1, lambda text: f"import sys\nsys.exit(0)\n{text}", "ends the program", error=True),
    Accident("os._exit at import", 2, lambda text: f"import os\nos._exit(0)\n{text}", "exit code 0", error=True),
    Accident(
        "endless loop at import", 3, lambda text: f"{SPIN}\n{text}", "still running after 4 seconds of CPU", error=True
    ),
    Accident("name error at import", 4, lambda text: f"foo\n{text}", "NameError: name 'foo'", error=True),
    Accident(
        "endless loop",
        2,
        line("usage", SPIN),
        "still running after 1 second of CPU time",
        spared=(1, 2, 3),
        charged=(4,),
    ),
    Accident(
        "loop that swallows all", 1, line("clamp", f"if threshold: {SWALLOW}"), "in clamp", spared=(2, 4), charged=(1,)
    ),
    Accident("recursion", 4, line("hit_rate", "return self.hit_rate()"), "RecursionError", (1, 2), (3, 5)),
    Accident("sys.exit", 3, line("choose_victim", "raise SystemExit(3)"), "ended the program", (1, 3), (2, 4)),
    Accident(
        "os._exit", 1, line("update_from_output", "import os; os._exit(0)"), "ended the whole process", (1, 2, 3), (4,)
    ),
    Accident("segfault", 2, line("usage", SEGFAULT), "SIGSEGV", spared=(1, 2, 3), charged=(4,)),
    Accident("flood of output", 5, line("should_sample", FLOOD), spared=(1, 2, 3, 4)),
    Accident("flood at import", 2, lambda text: f"print('x' * 10**8)\n{text}", spared=(1, 2, 3, 4)),
    Accident("forged results", 1, line("clamp", FORGED), "expected", spared=(4,), charged=(1,)),
    Accident(
        "wrong signature",
        1,
        replaced("budget: int, threshold: int) -> int", "budget: int) -> int"),
        "expected: clamp(num_new, budget, threshold)",
        spared=(4,),
        charged=(1,),
    ),
    Accident("returns None", 5, line("num_new_tokens", "return None"), "None", spared=(4,), charged=(1, 2)),
    Accident("mutates its input", 3, line("choose_victim", "running.reverse()"), spared=(1, 3), charged=(2,)),
    Accident(
        "state that outlives a test",
        4,
        lambda text: with_line(text, "hash_block", ONE_TEST_ONLY) + "\n\n_seen: set[str] = set()\n",
        spared=(2, 3, 4, 5),
    ),
    Accident(
        "renamed function",
        3,
        replaced(" preempt(", " preempt_it("),
        "preempt is missing from starter.py",
        spared=(1, 2, 4),
        charged=(3,),
    ),
    Accident(
        "missing method", 2, replaced("def usage", "def used"), "PagedKVCacheManager.usage is missing", (1, 2, 3), (4,)
    ),
    Accident("a thread left running", 5, line("__init__", THREAD), spared=(1, 2, 3, 4)),
    Accident("too much memory", 4, line("hit_rate", "bytearray(10**11)"), "MemoryError", spared=(1, 2), charged=(3, 5)),
    Accident(
        "waits longer than its CPU time",
        2,
        lambda text: with_line(text, "usage", WAITS) + "\n\n_seen: list[int] = []\n",
        spared=(1, 2, 3, 4),
    ),
    Accident("waits for input", 1, line("clamp", "input()"), "waits for input", spared=(4,), charged=(1,)),
    Accident("interrupt", 5, line("admits", "raise KeyboardInterrupt"), "KeyboardInterrupt", (1, 2, 3), (4,)),
)
