"""Runs a function in a separate process that is killed after a number of seconds."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

Outcome = dict[str, Any]


def bounded(function: Callable[[], Any], seconds: float) -> Outcome:
    """Return the function's result under `trace`, or a reason under `refused`, `crashed` or `endless`.

    A `ValueError` counts as a refusal. The result must be JSON. The process is forked, so this works only on POSIX
    systems.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # kills this process, whatever it is doing at that moment
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with os.fdopen(writer, "w", encoding="utf-8") as out:
            json.dump(_outcome(function), out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answers:
        text = answers.read()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status == -signal.SIGALRM:
        return {"endless": f"no end within {seconds:g} seconds"}
    outcome: Outcome = json.loads(text) if status == 0 else {"crashed": f"the process ended with {status}"}
    return outcome


def _outcome(function: Callable[[], Any]) -> Outcome:
    try:
        return {"trace": function()}
    except ValueError as error:
        return {"refused": _first_line(error)}
    except Exception as error:  # a report rather than an exception, because the next scenario must still be recorded
        return {"crashed": f"{type(error).__name__}: {_first_line(error)}"}


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # pydantic prints its reason, if there is one, below the field name
    reasons = [line.partition(" [type=")[0] for line in lines if " [type=" in line]
    return (reasons or lines or [""])[0][:200]
