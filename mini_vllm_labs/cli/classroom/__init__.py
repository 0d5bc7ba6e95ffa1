"""The teachers' commands."""
