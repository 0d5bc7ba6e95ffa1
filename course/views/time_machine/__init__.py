"""Every step of a run as a picture that can be played, and two runs compared."""

from course.views.time_machine.compare import compare
from course.views.time_machine.machine import pictures, time_machine

__all__ = ["compare", "pictures", "time_machine"]
