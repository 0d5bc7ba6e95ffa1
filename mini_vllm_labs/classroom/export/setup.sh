#!/usr/bin/env bash
# Runs once, as root, when Gradescope builds the image (Ubuntu 22.04 or newer).
set -euo pipefail
cd "${AUTOGRADER:-/autograder}/source"
apt-get update -q
apt-get install -y -q --no-install-recommends bubblewrap libseccomp2
for version in 3.13 3.12 3.11; do
    if apt-get install -y -q --no-install-recommends "python$version" "python$version-venv"; then break; fi
done
"python$version" -c "import lab; lab.set_up('cpu')"
