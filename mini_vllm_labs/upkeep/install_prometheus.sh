#!/usr/bin/env bash
# Puts prometheus and promtool into .prometheus/, for `python -m mini_vllm_labs.upkeep.incidents`, on Debian and Ubuntu. Nothing is
# installed: the package would start a service.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$PWD/.prometheus/usr/bin:$PATH"
if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "There is no prometheus and no apt-get: install prometheus and promtool on the PATH" >&2
        exit 1
    fi
    as_root=$([ "$(id -u)" = 0 ] || echo sudo)
    $as_root apt-get update -q
    package=$(mktemp -d)
    (cd "$package" && apt-get download -q prometheus)
    dpkg-deb -x "$package"/prometheus_*.deb .prometheus
    rm -r "$package"
fi
prometheus --version 2>&1 | head -1
