"""The build backend of this folder: `editable_only.py`, which `pyproject.toml` names."""
