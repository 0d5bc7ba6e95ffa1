#!/usr/bin/env bash
# Installs what `mini-vllm judge` isolates submissions with (bubblewrap, libseccomp), on Debian and Ubuntu, and tries it.
set -euo pipefail
if ! command -v bwrap >/dev/null || ! ldconfig -p | grep -q libseccomp.so.2; then
    as_root=$([ "$(id -u)" = 0 ] || echo sudo)
    $as_root apt-get update -q
    $as_root apt-get install -y -q --no-install-recommends bubblewrap libseccomp2
fi
bwrap --version
if ! bwrap --ro-bind / / --proc /proc --dev /dev --unshare-pid --unshare-net true; then
    echo "bubblewrap is there, but this system does not let it make namespaces: see docs/teaching.md" >&2
    exit 1
fi
echo "The jail works."
