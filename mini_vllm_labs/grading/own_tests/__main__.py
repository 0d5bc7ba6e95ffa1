"""Runs the process from which `grade.py` forks for each implementation."""

from mini_vllm_labs.grading.own_tests.server import serve

serve()
