"""Starts the process in which `runs.py` runs learners' files."""

from mini_vllm_labs.viva.play import serve

serve()
