"""Every launch compiles for the GPUs that matter, without one: what the interpreter takes a compiler may refuse.

The host's own code runs on CPU tensors with each launch replaced by a compilation, in a process without the
interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import inspect, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from zeta_core.ops.kernel_ops import attend_plan, make_plan

KINDS = {
    torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "i8", torch.int16: "i16",
    torch.int32: "i32", torch.int64: "i64", torch.bool: "i1",
}
TARGET = GPUTarget("cuda", int(sys.argv[1]), 32)
compiled = set()


def compile_only(self, *args, grid, warmup, **keywords):
    options = {name: keywords.pop(name) for name in ("num_warps", "maxnreg") if name in keywords}
    bound = inspect.signature(self.fn).bind(*args, **keywords).arguments
    signature, constants, attributes = {}, {}, {}
    for i, parameter in enumerate(self.params):
        value = bound[parameter.name]
        if isinstance(value, torch.Tensor):
            signature[parameter.name] = "*" + KINDS[value.dtype]
        elif parameter.is_constexpr or value == 1:
            signature[parameter.name], constants[(i,)] = "constexpr", value
        else:
            signature[parameter.name] = "i32" if value < 2**31 else "i64"
        if not parameter.is_constexpr and (isinstance(value, torch.Tensor) or value % 16 == 0):
            attributes[(i,)] = [["tt.divisibility", 16]]
    key = (self.fn.__name__, str(signature), str(constants), str(options))
    if key not in compiled:
        compiled.add(key)
        done = triton.compile(ASTSource(self, signature, constants, attributes), target=TARGET, options=options)
        assert done.asm["ptx"] and done.metadata.shared <= 227 * 1024


JITFunction.run = compile_only


def case(seq_len=1024, d_k=3, d_v=64, dtype=torch.bfloat16, chunk=128, curves=1, refine=1, score=0, local=0,
         padded=False):
    q, k = torch.rand(2, 1, 2, seq_len, d_k).requires_grad_()
    v = torch.randn(1, 2, seq_len, d_v, dtype=dtype).requires_grad_()
    gamma = torch.full((2,), 0.3).requires_grad_()
    mask = torch.rand(1, seq_len) < 0.2 if padded else None
    plan = make_plan(q, k, mask, chunk=chunk, top_k=12, curves=curves, refine=refine)
    out = attend_plan(q, k, v, plan, gamma, score, True, local, chunk is not None, mask)
    out.backward(torch.ones_like(out))
    plan.indices()


for arguments in sys.argv[2:]:
    eval(f"case({arguments})")
print(len(compiled), "kernels")
"""
ALL_OPTIONS = "dtype=torch.float32, curves=3, refine=2, score=1, local=8, padded=True"
WIDE = "d_k=7, d_v=256, score=3, chunk=None"
SHORT_CHUNKS = "seq_len=256, chunk=2, dtype=torch.float16, score=2, d_v=80"


@pytest.mark.parametrize(
    ("arch", "cases"),
    [(80, [""]), (90, ["", ALL_OPTIONS]), (90, [WIDE, SHORT_CHUNKS]), (100, [""])],
    ids=["sm_80", "sm_90 and all options", "sm_90 wide, short chunks", "sm_100"],
)
def test_every_launch_compiles(arch: int, cases: list[str], tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "TRITON_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, str(arch), *cases]
    source = tmp_path / "gate.py"
    source.write_text(PROGRAM, encoding="utf-8")
    command[1:3] = [str(source)]
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = str(root)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout.split()[0]) >= 14, done.stdout
