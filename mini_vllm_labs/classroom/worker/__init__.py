"""The code that runs in a worker with the learner's: the only part of the judge visible in a jail."""
