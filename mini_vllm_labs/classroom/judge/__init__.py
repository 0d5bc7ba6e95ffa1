"""The judge: grades a class on scenarios with a secret seed. The student edition does not contain the judge."""
