"""The judge: points for a class, from scenarios with a secret seed. Left out of the student edition."""
