"""Every number in a handout, slide or guide is recomputed; `checks/` contains the code for this."""
