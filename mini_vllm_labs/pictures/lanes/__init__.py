"""A run in turn and a run that is planned ahead: what the engine and the runner do at each moment."""

from mini_vllm_labs.pictures.lanes.picture import lanes, lanes_panel

__all__ = ["lanes", "lanes_panel"]
