"""Processes of a test's own: started in a moment, since their parent has imported torch and zeta once for all."""

import multiprocessing
import os
import socket
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["tasks.draws", "zeta_cli.train", "zeta_core.studies.train", "torch._dynamo", "torch.distributed.fsdp"]
)


def begin(target: Callable[..., object], *given: Any, words: Path, environment: Mapping[str, str]) -> BaseProcess:
    """Start target(*given) in a process, all of whose words go to a file; what it returns is its exit code."""
    process = CONTEXT.Process(target=_run, args=(target, given, words, environment))
    process.start()
    return process


def ranks(target: Callable[..., object], *given: Any, words: Path, number: int = 2) -> list[int | None]:
    """The exit codes of processes that run the same, with what torchrun would tell each of them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(number)}
    told |= {"LOCAL_WORLD_SIZE": str(number), "OMP_NUM_THREADS": "1"}
    places = [{**told, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(number)]
    processes = [begin(target, *given, words=words, environment=place) for place in places]
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def _run(target: Callable[..., object], given: tuple[Any, ...], words: Path, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    file = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    torch.set_num_threads(1)
    os._exit(int(target(*given) or 0))  # type: ignore[call-overload]
