"""The batch that never ends: the same requests in static batches, and with a seat filled as soon as it is free."""

from course.views.batching.picture import batching, batching_panel

__all__ = ["batching", "batching_panel"]
