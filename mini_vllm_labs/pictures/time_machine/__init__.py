"""Draws every step of a run as a playable picture, compares two runs, and draws a run's timeline alone."""

from mini_vllm_labs.pictures.time_machine.compare import compare
from mini_vllm_labs.pictures.time_machine.latency import latency_bars
from mini_vllm_labs.pictures.time_machine.machine import pictures, time_machine
from mini_vllm_labs.pictures.time_machine.waits import wait_strip

__all__ = ["compare", "latency_bars", "pictures", "time_machine", "wait_strip"]
