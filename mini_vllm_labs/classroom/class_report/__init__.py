"""Shows where the learners of a class stop, from the histories that they hand in."""
