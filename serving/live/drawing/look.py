"""What a page looks at."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """A picture as a page wants it: `step` None is the newest one, `follow` the id of a request, or empty.

    `width` and `height` are the room for it in px. The text of the picture is made for who reads it.
    """

    step: int | None = None
    width: int = 720
    height: int = 480
    follow: str = ""
    with_text: bool = False
