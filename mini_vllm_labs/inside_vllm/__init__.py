"""Runs the learner's phases 1 to 5 as the scheduler of vLLM 0.13.0 or 0.32.0; needs an installed vLLM."""
