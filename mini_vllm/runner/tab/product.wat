;; Rows of x [t, k] times rows of w [n, k], in floats of four lanes: what `product` in llama.js calls where the browser
;; has SIMD. All arguments are bytes but t and n, which count rows; n is a multiple of 4, k of 32. Four rows of w stay in
;; the nearest cache while all rows of x pass. Assembled by `npx -p wabt wat2wasm product.wat`; llama.js holds the bytes.
(module
  (import "tab" "memory" (memory 1))
  (func (export "product")
    (param $x i32) (param $w i32) (param $k i32) (param $t i32) (param $n i32) (param $out i32)
    (local $row i32) (local $token i32) (local $from i32) (local $to i32) (local $i i32) (local $end i32)
    (local $k2 i32) (local $k3 i32) (local $v v128)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local.set $k2 (i32.shl (local.get $k) (i32.const 1)))
    (local.set $k3 (i32.add (local.get $k2) (local.get $k)))
    (local.set $row (local.get $n))
    (loop $rows
      (local.set $from (local.get $x))
      (local.set $to (local.get $out))
      (local.set $token (local.get $t))
      (loop $tokens
        (local.set $a (v128.const f32x4 0 0 0 0))
        (local.set $b (local.get $a))
        (local.set $c (local.get $a))
        (local.set $d (local.get $a))
        (local.set $i (local.get $w))
        (local.set $end (i32.add (local.get $w) (local.get $k)))
        (loop $numbers
          (local.set $v (v128.load (local.get $from)))
          (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $v) (v128.load (local.get $i)))))
          (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $i) (local.get $k))))))
          (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $i) (local.get $k2))))))
          (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $v) (v128.load (i32.add (local.get $i) (local.get $k3))))))
          (local.set $v (v128.load offset=16 (local.get $from)))
          (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $v) (v128.load offset=16 (local.get $i)))))
          (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $v) (v128.load offset=16 (i32.add (local.get $i) (local.get $k))))))
          (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $v) (v128.load offset=16 (i32.add (local.get $i) (local.get $k2))))))
          (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $v) (v128.load offset=16 (i32.add (local.get $i) (local.get $k3))))))
          (local.set $from (i32.add (local.get $from) (i32.const 32)))
          (br_if $numbers (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 32))) (local.get $end))))
        ;; Lanes of a and b, and of c and d, side by side; then of both.
        (local.set $v (f32x4.add
          (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $a) (local.get $b))
          (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $a) (local.get $b))))
        (local.set $d (f32x4.add
          (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $c) (local.get $d))
          (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $c) (local.get $d))))
        (v128.store (local.get $to) (f32x4.add
          (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $v) (local.get $d))
          (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $v) (local.get $d))))
        (local.set $to (i32.add (local.get $to) (i32.shl (local.get $n) (i32.const 2))))
        (br_if $tokens (local.tee $token (i32.sub (local.get $token) (i32.const 1)))))
      (local.set $w (i32.add (local.get $w) (i32.shl (local.get $k) (i32.const 2))))
      (local.set $out (i32.add (local.get $out) (i32.const 16)))
      (br_if $rows (local.tee $row (i32.sub (local.get $row) (i32.const 4)))))))
