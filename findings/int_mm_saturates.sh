#!/usr/bin/env bash
# torch: `torch._int_mm`, the exact product of int8 by int8 to int32, is wrong on x86 processors without VNNI.
#
# There oneDNN adds pairs of products in 16 bits, which saturate: no error, and far from the right sum. oneDNN's guide
# to int8 warns of it, and torch's older quantization keeps weights to 7 bits for it (`reduce_range`); `_int_mm` does
# not. ONEDNN_MAX_CPU_ISA lets any x86 processor behave like an older one.
set -euo pipefail
[ "$(uname -m)" = x86_64 ] || { echo "only on x86_64"; exit 0; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/env"
"$place/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
cat > "$place/product.py" <<'PY'
import torch
ones = torch.full((1, 64), 127, dtype=torch.int8)
print(torch.__version__, int(torch._int_mm(ones, ones.t())), 64 * 127 * 127)
PY
found=$(ONEDNN_MAX_CPU_ISA=AVX2 "$place/env/bin/python" "$place/product.py")
read -r version got right <<< "$found"
echo "torch $version on AVX2: _int_mm gives $got, and $right is right"
[ "$got" != "$right" ]
