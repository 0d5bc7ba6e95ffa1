"""Every number in a handout, a slide or a guide is recomputed; `checks/` contains the code for it."""
