"""Starts the process of `runs.py` that plays runs."""

from mini_vllm_labs.viva.play import serve

serve()
