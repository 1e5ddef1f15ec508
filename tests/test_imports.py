"""The direction of imports, by walking the source: who may import whom, and which package is imported where."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (
    {"zeta_cli"},
    {"studies"},
    {"training", "tracking", "records", "csv_file", "provenance", "run_folder", "table_check", "generate"},
    {"model", "tasks"},
    {"attention"},
    {"ops"},
    {"config", "experiment", "layers", "validation", "wording"},
    {"errors"},
)
"""From the top down: a part imports itself and what lies below."""
MAY_IMPORT_EACH_OTHER = (LAYERS[2], LAYERS[6])


class Import(NamedTuple):
    """One import statement's target, seen from a file."""

    path: Path
    """From the root of the repository."""
    target: str
    """Dotted, absolute: `torch.nn`, `zeta_core.ops.impl.Impl`."""

    @property
    def package(self) -> str:
        return self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.path} imports {self.target}"


def python_files(root: Path) -> list[Path]:
    return sorted(path for package in ("zeta_core", "zeta_cli") for path in (root / package).rglob("*.py"))


def imports_of(path: Path, root: Path) -> Iterator[Import]:
    """Every import in a file, those inside functions and for type checkers included."""
    inside = path.relative_to(root)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (Import(inside, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside.parts[: len(inside.parts) - node.level] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            yield from (Import(inside, f"{base}.{alias.name}") for alias in node.names)


def all_imports(root: Path) -> list[Import]:
    return [one for path in python_files(root) for one in imports_of(path, root)]


def part_of(dotted: str) -> str:
    """The part of the project that a module belongs to: `ops`, `config`, ..., `zeta_cli`; `` for zeta_core itself."""
    first, *rest = dotted.split(".")
    return first if first == "zeta_cli" else (rest[0] if rest else "")


def layer_of(part: str) -> int | None:
    return next((number for number, parts in enumerate(LAYERS) if part in parts), None)


def breaches_of_direction(root: Path) -> list[str]:
    """Imports that go up, or sideways where that is not allowed, and parts that no layer lists."""
    found = []
    for one in all_imports(root):
        source, target = part_of(".".join(one.path.with_suffix("").parts)), part_of(one.target)
        if one.package not in ("zeta_core", "zeta_cli") or source == target or source == "__init__":
            continue
        above, below = layer_of(source), layer_of(target)
        if above is None or below is None:
            found.append(f"{one}: {source if above is None else target} is in no layer")
        elif above > below or (above == below and LAYERS[above] not in MAY_IMPORT_EACH_OTHER):
            found.append(f"{one}: {source} may not import {target}")
        elif source == "ops" and target != "errors":
            found.append(f"{one}: ops may import zeta_core.errors alone")
    return found


def is_kernel(path: Path) -> bool:
    return path.parts[:2] == ("zeta_core", "ops") and path.name.startswith("kernel")


HOMES = {
    "triton": is_kernel,
    "typer": lambda path: path.parts[0] == "zeta_cli",
    "rich": lambda path: path.parts[0] == "zeta_cli",
    "yaml": lambda path: path == Path("zeta_core/config.py"),
    "wandb": lambda path: path == Path("zeta_core/tracking.py"),
}
"""Packages that are imported in one place alone."""


def breaches_of_home(root: Path, package: str) -> list[str]:
    return [str(one) for one in all_imports(root) if one.package == package and not HOMES[package](one.path)]


def foreign_packages_in_ops(root: Path) -> list[str]:
    """What the operator imports beside the standard library, torch, itself and, in kernels, Triton."""
    known = {"torch", "zeta_core", *sys.stdlib_module_names}
    return [
        str(one)
        for one in all_imports(root)
        if one.path.parts[:2] == ("zeta_core", "ops")
        and one.package not in known
        and not (one.package == "triton" and is_kernel(one.path))
    ]


def crossings(root: Path) -> list[str]:
    """Reference implementations that import kernels, and kernels that import references."""
    found = []
    for one in all_imports(root):
        modules = one.target.split(".") if one.package == "zeta_core" else []
        to_kernel = any(name.startswith("kernel") for name in modules)
        if (one.path.name == "reference.py" and to_kernel) or (is_kernel(one.path) and "reference" in modules):
            found.append(str(one))
    return found


def slow_imports_of_the_package_itself(root: Path) -> list[str]:
    """What `import zeta_core` runs at once beside `typing`; types and functions may import more."""
    body = ast.parse((root / "zeta_core/__init__.py").read_text(encoding="utf-8")).body
    at_once = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    return [
        ast.unparse(node) for node in at_once if not (isinstance(node, ast.ImportFrom) and node.module == "typing")
    ]


def test_imports_point_one_way():
    assert breaches_of_direction(ROOT) == []


@pytest.mark.parametrize("package", HOMES)
def test_a_package_is_imported_in_its_place_alone(package):
    assert breaches_of_home(ROOT, package) == []


def test_the_operator_needs_torch_alone():
    assert foreign_packages_in_ops(ROOT) == []


def test_references_and_kernels_never_import_each_other():
    assert crossings(ROOT) == []


def test_the_package_itself_is_lazy():
    assert slow_imports_of_the_package_itself(ROOT) == []


# The walk itself, on made-up trees: every rule can be broken, and what is allowed passes.
def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("zeta_core/ops/impl.py", "from ..config import Config"),
        ("zeta_core/ops/attend/api.py", "import zeta_core.attention.zeta"),
        ("zeta_core/ops/attend/api.py", "def f():\n    from ...layers import merge"),
        ("zeta_core/attention/zeta.py", "from zeta_core.model import Network"),
        ("zeta_core/model/network.py", "from ..tasks import Task"),
        ("zeta_core/tasks/mqar.py", "from ..training import fit"),
        ("zeta_core/training/loop.py", "from ..studies.train import run"),
        ("zeta_core/studies/train.py", "from zeta_cli.console import show"),
        ("zeta_core/config.py", "from .ops import zeta_attention"),
        ("zeta_core/errors.py", "from .wording import describe"),
        ("zeta_core/novelty.py", "from .errors import ZetaError"),
    ],
)
def test_the_walk_sees_a_wrong_direction(tmp_path, path, text):
    assert len(breaches_of_direction(tree(tmp_path, {path: text}))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "zeta_core/ops/attend/api.py",
            "from ..windows.api import WindowPlan\nfrom zeta_core.errors import ShapeError",
        ),
        ("zeta_core/attention/zeta.py", "from ..ops import zeta_attention\nfrom ..config import Config"),
        ("zeta_core/tracking.py", "from .records import Row"),
        ("zeta_core/__init__.py", "def f():\n    from .attention import zeta"),
        ("zeta_cli/app.py", "from zeta_core.studies.train import run\nfrom .console import show"),
    ],
)
def test_the_walk_allows_the_right_direction(tmp_path, path, text):
    assert breaches_of_direction(tree(tmp_path, {path: text})) == []


@pytest.mark.parametrize(
    ("package", "wrong", "right"),
    [
        ("triton", "zeta_core/ops/impl.py", "zeta_core/ops/attend/kernel_forward.py"),
        ("triton", "zeta_core/attention/kernel.py", "zeta_core/ops/windows/kernel.py"),
        ("typer", "zeta_core/studies/train.py", "zeta_cli/app.py"),
        ("rich", "zeta_core/training/loop.py", "zeta_cli/console.py"),
        ("yaml", "zeta_core/layers.py", "zeta_core/config.py"),
        ("wandb", "zeta_core/records.py", "zeta_core/tracking.py"),
    ],
)
def test_the_walk_sees_a_package_out_of_place(tmp_path, package, wrong, right):
    text = f"def f():\n    from {package}.part import x"
    assert len(breaches_of_home(tree(tmp_path, {wrong: text, right: text}), package)) == 1


def test_the_walk_sees_what_the_operator_must_not_need(tmp_path):
    files = {
        "zeta_core/ops/impl.py": "import numpy, math\nimport triton",
        "zeta_core/ops/zorder/kernel.py": "import triton",
    }
    assert foreign_packages_in_ops(tree(tmp_path, files)) == [
        "zeta_core/ops/impl.py imports numpy",
        "zeta_core/ops/impl.py imports triton",
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("zeta_core/ops/zorder/reference.py", "from .kernel import forward"),
        ("zeta_core/ops/zorder/reference.py", "from . import kernel"),
        ("zeta_core/ops/attend/reference.py", "from ..windows import kernel_lists"),
        ("zeta_core/ops/attend/kernel_backward.py", "import zeta_core.ops.attend.reference"),
        ("zeta_core/ops/attend/kernel_forward.py", "from .reference import attend"),
    ],
)
def test_the_walk_sees_a_crossing(tmp_path, path, text):
    assert len(crossings(tree(tmp_path, {path: text}))) == 1


def test_the_walk_sees_a_package_that_is_not_lazy(tmp_path):
    text = "from typing import TYPE_CHECKING\nimport torch\nif TYPE_CHECKING:\n    from .ops import zeta_attention\n"
    assert slow_imports_of_the_package_itself(tree(tmp_path, {"zeta_core/__init__.py": text})) == ["import torch"]
