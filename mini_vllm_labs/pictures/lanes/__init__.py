"""Draws a sequential run and a run planned ahead, with the engine's and the runner's tasks over time."""

from mini_vllm_labs.pictures.lanes.picture import lanes, lanes_panel

__all__ = ["lanes", "lanes_panel"]
