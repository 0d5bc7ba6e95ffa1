"""How a long-running function reports what it is doing."""

from collections.abc import Callable

OnProgress = Callable[[str], None]
"""Called with a line of text each time a new part of the work begins."""
