"""Tools for teachers: the judge that grades a class, and the student edition."""
