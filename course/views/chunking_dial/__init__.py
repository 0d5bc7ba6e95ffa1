"""What the token budget and the threshold for long prompts do to waiting: thousands of requests, answered at once."""

from course.views.chunking_dial.dial import chunking_dial
from course.views.chunking_dial.drawing import chunking_picture
from course.views.chunking_dial.trial import Deployment, Setting, try_setting

__all__ = ["Deployment", "Setting", "chunking_dial", "chunking_picture", "try_setting"]
