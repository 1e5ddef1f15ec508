"""The kernels without a GPU: by the interpreter, in a process of its own since it is chosen when they are made."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_kernels_by_the_interpreter() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "test_kernel_interpreted.py"]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout, done.stdout[-2000:]
