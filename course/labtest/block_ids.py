"""Block ids that the learner's code returns: read strictly, so that what the engine cannot use does not pass."""

from collections.abc import Mapping, Sequence
from typing import Any

from course.labtest.expect import lab_failure


def as_block_ids(result: Any, function: str, situation: Sequence[str] = ()) -> list[int]:
    """Return a copy of a list of block ids as plain integers. A tuple or an array is fine, a generator is not."""
    is_sequence = hasattr(result, "__len__") and hasattr(result, "__getitem__")
    if not is_sequence or isinstance(result, Mapping | str | bytes):
        lab_failure(
            rule=f"{function} returns a list of block ids. The engine takes its length and reads it more than once.",
            situation=situation or f"{function} was called",
            expected="a list",
            yours="None" if result is None else f"a {type(result).__name__}",
            hint="does every path through the function return a list?"
            if result is None
            else "can what you return be read twice, and does it have a length?",
        )
    return [int(block_id) for block_id in result]
