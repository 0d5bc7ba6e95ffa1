"""Runs in a worker, next to the learner's code: the only part of the judge that is visible in a jail."""
