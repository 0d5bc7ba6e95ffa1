"""How pip builds this folder: see `editable_only.py`, which `pyproject.toml` names."""
