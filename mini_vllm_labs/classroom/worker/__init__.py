"""Runs in a worker together with the learner's code; no other part of the judge is visible in a jail."""
