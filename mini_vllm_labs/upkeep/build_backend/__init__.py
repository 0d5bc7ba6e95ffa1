"""This folder's build backend: `course_build.py`, which `pyproject.toml` names."""
