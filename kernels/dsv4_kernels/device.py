"""Device helpers that every kernel shares."""

from __future__ import annotations

import triton
import triton.language as tl

# Triton's interpreter keeps bf16 as raw 16-bit integers and multiplies those; there the operands are widened
# (exactly) to fp32 first. On a GPU this is False and the branch does not exist.
INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


@triton.jit
def dot_bf16(a, b, acc):
    """acc + a @ b, bf16 operands, fp32 sums."""
    if INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), acc, input_precision="ieee")
    return tl.dot(a, b, acc)


# Four e4m3 bytes ($2) to four bf16: exponent and mantissa move into a bf16's place, which is the value times 2^-120;
# one packed multiply puts that right, subnormals included, and one applies the scale. All are full-rate instructions;
# the compiler's own conversion goes through fp16 and fp32 with a quarter-rate F2F for each element.
# The NaN code 0x7f reads as 480: no writer makes one.
_CONVERT = """
.reg .b32 lo, hi, t, c;
mov.b32 c, 0x7b807b80;
prmt.b32 lo, $2, 0, 0x1404;
prmt.b32 hi, $2, 0, 0x3424;
shr.b32 t, lo, 4;
and.b32 t, t, 0x07f007f0;
lop3.b32 lo, lo, 0x80008000, t, 0xea;
shr.b32 t, hi, 4;
and.b32 t, t, 0x07f007f0;
lop3.b32 hi, hi, 0x80008000, t, 0xea;
mul.rn.bf16x2 lo, lo, c;
mul.rn.bf16x2 hi, hi, c;
"""
_DEQUANTISE = tl.constexpr("{" + _CONVERT + "mul.rn.bf16x2 $0, lo, $3;\nmul.rn.bf16x2 $1, hi, $4;\n}")
# the mask byte ($7) chooses between the product and the other pair without unpacking either
_DEQUANTISE_OR = tl.constexpr(
    "{"
    + _CONVERT
    + """
mul.rn.bf16x2 lo, lo, $5;
mul.rn.bf16x2 hi, hi, $6;
lop3.b32 $0, $7, lo, $3, 0xca;
lop3.b32 $1, $7, hi, $4, 0xca;
}"""
)


@triton.jit
def dequantise(byte, scale):
    """e4m3 bytes times their bf16 scales, as bf16. Shapes broadcast."""
    if INTERPRETED:
        return (byte.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale.to(tl.float32)).to(tl.bfloat16)
    return tl.inline_asm_elementwise(_DEQUANTISE, "=r,=r,r,r,r", [byte, scale], dtype=tl.bfloat16, is_pure=True, pack=4)


@triton.jit
def dequantise_or(byte, scale, is_fp8, other):
    """Where is_fp8, the e4m3 byte times its bf16 scale; elsewhere the bf16 `other`. Shapes broadcast."""
    if INTERPRETED:
        return tl.where(is_fp8, dequantise(byte, scale), other)
    mask = tl.where(is_fp8, 255, 0).to(tl.uint8)
    return tl.inline_asm_elementwise(
        _DEQUANTISE_OR, "=r,=r,r,r,r,r,r,r", [byte, other, scale, mask], dtype=tl.bfloat16, is_pure=True, pack=4
    )


@triton.jit
def wait_for_previous_kernel():
    """Programmatic dependent launch: this kernel may have started before the one whose results it reads has ended."""
    if not INTERPRETED:
        tl.extra.cuda.gdc_wait()


@triton.jit
def let_next_kernel_start():
    """Its launch overlaps this kernel's tail; it waits before it reads."""
    if not INTERPRETED:
        tl.extra.cuda.gdc_launch_dependents()
