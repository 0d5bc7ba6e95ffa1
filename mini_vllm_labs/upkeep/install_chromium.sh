#!/usr/bin/env bash
# Installs the browser that the tests of the widgets and `python -m mini_vllm_labs.upkeep.pictures` drive, on Debian and Ubuntu.
set -euo pipefail
for name in "${CHROMIUM:-chromium}" chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exec "$name" --version; fi
done
if ! command -v apt-get >/dev/null; then
    echo "There is no Chromium and no apt-get: install Chromium, or set CHROMIUM=/path/to/it" >&2
    exit 1
fi
as_root=$([ "$(id -u)" = 0 ] || echo sudo)
$as_root apt-get update -q
$as_root apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core
chromium --version
