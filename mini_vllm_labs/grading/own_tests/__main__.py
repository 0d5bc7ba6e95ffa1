"""Runs the process of `grade.py` that forks for each implementation."""

from mini_vllm_labs.grading.own_tests.server import serve

serve()
