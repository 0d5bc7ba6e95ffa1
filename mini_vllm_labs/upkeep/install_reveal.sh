#!/usr/bin/env bash
# Puts reveal.js, which makes slides of a deck, where `python -m mini_vllm_labs.upkeep.decks` looks: `build/decks-cache/`. Needs npm, once.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=5.2.1
sha512=afbfffea620ce69df884588332f61f5e0ca35ea191b5afbfa6c77d62dcadb20465ae947316fe116c7efa4d7776a83fbb64f6446e904385d46125a1607d0ef335
mkdir -p build/decks-cache
cd build/decks-cache
if [ -f reveal.js ]; then exit; fi
npm pack --silent "reveal.js@$version" > /dev/null
echo "$sha512  reveal.js-$version.tgz" | sha512sum --check --quiet
tar -xzf "reveal.js-$version.tgz" --transform 's|.*/||' package/LICENSE package/dist/reveal.css package/plugin/notes/notes.js \
    package/dist/reveal.js
