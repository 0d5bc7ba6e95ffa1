"""Knobs for a chain: change one token, the block size or the salt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course.views.hash_chain.picture import hash_chain
from course.views.knobs import Choice, Slide, Switch
from course.views.picture import WIDTH, Picture
from course.views.show import panel
from mini_vllm.core.interfaces import HashBlock

if TYPE_CHECKING:
    from course.views.panels import Panel

SALT = "blue"


def changed(token_ids: Sequence[int], position: int) -> list[int]:
    """Return a prompt whose token at `position` is the next higher id."""
    return [token + (place == position) for place, token in enumerate(token_ids)]


def chain_panel(token_ids: Sequence[int], hash_block: HashBlock | None = None) -> "Panel":
    """Return A's chain above that of B, which is A with one other token; knobs for the token, block size and salt.

    Raises `ValueError` for an empty prompt.
    """
    if not token_ids:
        raise ValueError("token_ids is empty, but a chain needs at least one token")

    def draw(position: float, block_size: int, salted: bool, width: float = WIDTH, before: object = None) -> Picture:
        prompts = {"A": list(token_ids), "B": changed(token_ids, int(position))}
        return hash_chain(prompts, block_size, hash_block, salts={"B": SALT} if salted else {}, width=width)

    knobs = (
        Slide("position", "the token of B that differs", min(5, len(token_ids) - 1), 0, len(token_ids) - 1, 1),
        Choice("block_size", "block size", 4, (2, 4, 8, 16)),
        Switch("salted", f"cache_salt '{SALT}' for B", False),
    )
    return panel(knobs, draw, reflows=True)
