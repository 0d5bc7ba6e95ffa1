"""The student edition: what is in it, how its texts differ, and that no solution leaks into it."""
