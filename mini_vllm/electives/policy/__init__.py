"""The seam of scheduling policies: a waiting queue and a step around phase 1's, which stays as it is."""
