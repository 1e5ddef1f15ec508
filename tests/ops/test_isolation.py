"""The operator alone, in fresh processes: it needs torch and nothing else of what the project depends on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = (
    "pydantic",
    "yaml",
    "accelerate",
    "pandas",
    "wandb",
    "rich",
    "typer",
    "matplotlib",
    "safetensors",
    "triton",
)
BLOCK = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Refuse())
"""


def run(program: str) -> str:
    """What a program prints in a process of its own, started elsewhere; it must end well."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd="/",
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("package", BLOCKED)
def test_the_block_blocks(package):
    program = (
        BLOCK
        + f"""
try:
    import {package}
except ModuleNotFoundError as error:
    print(error)
"""
    )
    assert run(program) == f"{package} is blocked"


def test_the_operator_runs_where_nothing_but_torch_is_installed():
    program = (
        BLOCK
        + """
import torch
from zeta_core import zeta_attention, zeta_plan
from zeta_core.ops import zeta_attention as same
assert same is zeta_attention
q, k, v = (torch.rand(1, 2, 20, d).requires_grad_() for d in (3, 3, 5))
gamma = torch.tensor(0.3, requires_grad=True)
options = dict(top_k=6, curves=3, refine=2)
for score in ("cauchy", "negative_euclidean", "inverse_euclidean", "normalized_dot"):
    zeta_attention(q, k, v, gamma=gamma, score=score, local_window=2, **options).sum().backward()
assert all(t.grad.isfinite().all() for t in (q, k, v, gamma))
print(list(zeta_plan(q, k, **options).indices().shape))
"""
    )
    assert run(program) == "[1, 2, 20, 6]"


def test_asking_for_kernels_without_triton_is_an_error_that_says_so():
    program = (
        BLOCK
        + """
import torch
from zeta_core.errors import DeviceError
from zeta_core.ops import zeta_attention
x = torch.rand(1, 1, 4, 3)
try:
    zeta_attention(x, x, x, gamma=0.3, impl="triton")
except DeviceError as error:
    print(error)
"""
    )
    assert run(program).startswith("impl='triton' cannot run here: ")


def test_importing_the_operator_imports_neither_triton_nor_the_rest():
    program = f"""
import sys
import torch
before = set(sys.modules)
import zeta_core.ops
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(new & set({BLOCKED})), "zeta_core.config" in sys.modules)
"""
    assert run(program) == "[] False"


def test_importing_the_package_imports_no_torch():
    assert run("import sys, zeta_core; print('torch' in sys.modules)") == "False"


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    assert run("import zeta_core; print(hasattr(zeta_core, 'softmax_attention'))") == "False"
