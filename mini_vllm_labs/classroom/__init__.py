"""For teachers: judging a class, and the student edition."""
