"""Shows where the learners in a class stop, based on the histories that they hand in."""
