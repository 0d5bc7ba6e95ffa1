#!/usr/bin/env bash
# Puts axe-core, which checks the website's pages, where its tests look: `build/site-cache/`. Needs npm, once.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=4.14.1
sha512=1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5
mkdir -p build/site-cache
cd build/site-cache
if [ -f axe.min.js ]; then exit; fi
npm pack --silent "axe-core@$version" > /dev/null
echo "$sha512  axe-core-$version.tgz" | sha512sum --check --quiet
tar -xzf "axe-core-$version.tgz" --strip-components 1 package/axe.min.js
