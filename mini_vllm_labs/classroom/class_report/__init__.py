"""Shows where the learners of a class stop, based on the histories that they hand in."""
