"""Decides how many CPU threads compute a step, and how these threads wait for each other."""
