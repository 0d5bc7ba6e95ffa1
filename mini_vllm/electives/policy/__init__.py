"""The seam of scheduling policies: a waiting queue and a step that wrap phase 1 without changing it."""
