"""Finds the last value that the learner's code returned, by running a test once more. This file contains no tasks."""

import inspect
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from mini_vllm_labs.runs.sandbox.errors import UnusableAnswerError
from mini_vllm_labs.runs.sandbox.explain import SIGNATURE_WORDS, headline, missing_name
from mini_vllm_labs.runs.sandbox.frames import call_of, is_learners, learners_frames, short


class Listener:
    """A profile function that stores the last value that the learner's file returned to other code."""

    def __init__(self) -> None:
        self.answer = ""
        self.promise = ""

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "return" or not is_learners(frame.f_code.co_filename) or frame.f_code.co_name.startswith("<"):
            return
        if frame.f_back is None or not is_learners(frame.f_back.f_code.co_filename):
            self.answer = f"{call_of(frame)} -> {short(value)}"
            self.promise = promised(frame)


def promised(frame: FrameType) -> str:
    """Return the annotated return type of a running function, or an empty string if there is none."""
    found: Any = frame.f_globals
    for name in frame.f_code.co_qualname.split("."):
        found = found.get(name) if isinstance(found, dict) else inspect.getattr_static(found, name, None)
    function = found.fget if isinstance(found, property) else found
    annotation = getattr(function, "__annotations__", {}).get("return")
    return "" if annotation is None else re.sub(r"\b(\w+\.)+", "", inspect.formatannotation(annotation))


def unusable_answer(error: Exception, run_again: Callable[[], object]) -> UnusableAnswerError | None:
    """Explain an exception raised outside the learner's code, using the last value that this code returned.

    Returns None if the exception is clear on its own, or if the learner's code did not contribute to it.
    """
    if learners_frames(error.__traceback__) or missing_name(error):
        return None
    if isinstance(error, TypeError) and SIGNATURE_WORDS.match(str(error)):
        return None  # wrong signatures are explained better elsewhere
    listener = Listener()
    sys.setprofile(listener)
    try:
        run_again()
    except Exception as second:
        if type(second) is not type(error) or not listener.answer:
            return None
    else:
        return None
    finally:
        sys.setprofile(None)
    lines = [f"The test could not go on after this answer of yours ({headline(error)}).", f"  {listener.answer}"]
    if listener.promise:
        lines.append(f"  its signature promises: {listener.promise}")
    hint = "do the answer, and everything that the call changed, have the types in the starter's signature?"
    return UnusableAnswerError("\n".join([*lines, *getattr(error, "__notes__", []), f"Hint: {hint}"]))
