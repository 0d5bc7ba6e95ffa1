"""Tools for teachers: the judge of a class, and the student edition."""
