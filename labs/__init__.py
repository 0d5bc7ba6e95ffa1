"""The labs: one folder per phase. `starter.py` is the file that the learner edits."""
