"""Draws a run in turn and a run planned ahead: the tasks of the engine and of the runner over time."""

from mini_vllm_labs.pictures.lanes.picture import lanes, lanes_panel

__all__ = ["lanes", "lanes_panel"]
