#!/usr/bin/env bash
# setuptools: `pip install .` installs the files of `[tool.setuptools.data-files]`, `pip install -e .` leaves them out.
#
# A Jupyter kernel, an entry of a desktop menu or a man page is then missing for everyone who develops the package. The
# code means to install them: `editable_wheel._run_install("data")` asks the distribution for `has_data`, but the method
# is called `has_data_files`, so the branch never runs and nothing is said.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/env"
python="$place/env/bin/python"
"$python" -m pip install --quiet setuptools==84.2.1
mkdir "$place/project"
cd "$place/project"
echo '{"argv": ["true"], "display_name": "ours", "language": "none"}' > kernel.json
touch ours.py
cat > pyproject.toml <<'TOML'
[build-system]
requires = ["setuptools==84.2.1"]
build-backend = "setuptools.build_meta"
[project]
name = "ours"
version = "1"
[tool.setuptools]
py-modules = ["ours"]
data-files = { "share/jupyter/kernels/ours" = ["kernel.json"] }
TOML
kernel="$place/env/share/jupyter/kernels/ours/kernel.json"
found() { if [ -e "$kernel" ]; then echo there; else echo missing; fi; }
"$python" -m pip install --quiet --no-build-isolation .
copied=$(found)
"$python" -m pip uninstall --quiet --yes ours
"$python" -m pip install --quiet --no-build-isolation --editable .
editable=$(found)
echo "$("$python" -m pip list 2> /dev/null | grep -i '^setuptools'): kernel.json is $copied after 'pip install .', $editable after 'pip install -e .'"
[ "$copied $editable" = "there missing" ]
