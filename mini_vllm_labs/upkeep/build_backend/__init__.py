"""The build backend of this folder: `course_build.py`, which `pyproject.toml` names."""
