"""Runs in a worker together with the learner's code; the only part of the judge visible in a jail."""
