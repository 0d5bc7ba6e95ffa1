"""Plays the cases of the graded tests, with stand-ins for other phases. The jail shows submissions this folder."""
