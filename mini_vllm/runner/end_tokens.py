"""Finds the tokens that end a text, in the generation config, the model config or the tokenizer, in this order."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class EndTokens:
    """A model's end tokens, the file that defines them, and further tokens that other files define."""

    token_ids: frozenset[int]
    source: str
    unused: dict[str, frozenset[int]]

    def __str__(self) -> str:
        """Return the used and unused end tokens in one line."""
        shown = ", ".join(map(str, sorted(self.token_ids))) or "none: a text ends only at its largest length"
        others = "; ".join(f"not {sorted(ids)} of {source}" for source, ids in self.unused.items())
        return f"{shown} ({self.source}{f'; {others}' if others else ''})" if self.token_ids else shown


def find_end_tokens(folder: Path, named: dict[str, Any], vocab_size: int) -> EndTokens:
    """Return the end tokens of the first source that has any; `named` maps sources, in order, to `eos_token_id`.

    transformers' `generate` uses only the first source; if that source had no end token, a text would never end. Raises
    `ValueError` for a value outside the model's vocabulary.
    """
    found: dict[str, frozenset[int]] = {}
    for source, value in named.items():
        ids = [] if value is None else value if isinstance(value, list) else [value]
        if wrong := [one for one in ids if type(one) is not int or one >= vocab_size]:
            raise ValueError(
                f"{folder / source}: the end token (eos_token_id) must be from 0 to {vocab_size - 1}, the model's "
                f"vocabulary; got {wrong[0]!r}"
            )
        if usable := frozenset(one for one in ids if one >= 0):  # -1 means that there is no end token
            found[source] = usable
    if not found:
        return EndTokens(frozenset(), "", {})
    source, token_ids = next(iter(found.items()))
    return EndTokens(token_ids, source, {name: ids - token_ids for name, ids in found.items() if ids - token_ids})
