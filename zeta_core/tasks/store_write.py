"""Making folders of examples: shard by shard in several processes, or from rows of an import."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from zeta_core.errors import DataError, DataMissing, RunFailed, StorageError

from .store import (
    MANIFEST,
    Dataset,
    Examples,
    Manifest,
    Ragged,
    ShardRecord,
    Spec,
    SplitRecord,
    file_names,
    open_spec,
    pack,
    shard_folder,
)
from .store_files import locked, removed, write_synced, write_whole
from .task import SPLITS, Split

Report: TypeAlias = Callable[[Split, int, int | None, bool], None]
"""Called with a split, how many of its examples are there, of how many (None: unknown), and whether they were just
made: others were there before."""
Row: TypeAlias = tuple[tuple[np.ndarray, ...], int]
"""An example: its documents' tokens, and its class."""


class Producer(Protocol):
    """Makes examples start..stop-1 of a split, always the same ones. It is sent to other processes: picklable."""

    def __call__(self, split: Split, start: int, stop: int) -> Examples: ...


class Piece(NamedTuple):
    """A shard to make."""

    split: Split
    number: int
    start: int
    stop: int


def make(
    spec: Spec,
    producer: Producer,
    counts: Mapping[Split, int],
    *,
    workers: int = 1,
    report: Report = lambda split, done, total, made: None,
    notes: Callable[[], Mapping[str, object]] = dict,
) -> Dataset:
    """Make the examples of `spec`, or finish making them: whole shards that are there are kept.

    counts: examples of each split. The files do not depend on the number of workers. Processes that want the same
    folder at once wait for the first. notes: called once every shard is there, for what the manifest keeps.
    Raises: StorageError; RunFailed if a process was killed, and KeyboardInterrupt: with what was made kept."""
    with locked(spec.folder):
        try:
            return open_spec(spec)
        except DataError:
            _clean(spec)
        pieces = [
            Piece(split, number, start, min(start + spec.shard_size, counts[split]))
            for split in SPLITS
            for number, start in enumerate(range(0, counts.get(split, 0), spec.shard_size))
        ]
        records: dict[Piece, ShardRecord] = {}
        done = dict.fromkeys(SPLITS, 0)

        def finished(piece: Piece, record: ShardRecord, made: bool) -> None:
            records[piece] = record
            done[piece.split] += record.examples
            report(piece.split, done[piece.split], counts[piece.split], made)

        for piece in pieces:
            if (record := _kept(spec, piece)) is not None:
                finished(piece, record, False)
        missing = [piece for piece in pieces if piece not in records]
        for piece, record in _made(spec, producer, missing, workers):
            finished(piece, record, True)
        splits: dict[Split, SplitRecord] = {
            split: SplitRecord.of([records[piece] for piece in pieces if piece.split == split], spec.num_classes)
            for split in SPLITS
        }
        write_manifest(spec.folder, manifest_of(spec, splits, notes()))
        return open_spec(spec)


def import_rows(
    spec: Spec,
    splits: Mapping[Split, Iterable[Row]],
    *,
    notes: Mapping[str, object] | None = None,
    report: Report = lambda split, done, total, made: None,
) -> Dataset:
    """Write examples that come from elsewhere; what was there is replaced once all was read without an error.

    notes: kept in the manifest; it may be filled while rows are read.
    Raises: StorageError, and what the rows raise."""
    partial = spec.folder.with_name(f".{spec.folder.name}.partial")
    with locked(spec.folder):
        removed(partial)
        records: dict[Split, SplitRecord] = {}
        try:
            for split, rows in splits.items():
                shards: list[ShardRecord] = []
                waiting = iter(rows)
                while some := list(islice(waiting, spec.shard_size)):
                    documents = tuple(
                        pack([documents[place] for documents, _ in some]) for place in range(spec.num_documents)
                    )
                    labels = np.array([label for _, label in some], dtype=np.int64)
                    place = shard_folder(partial, split, len(shards))
                    shards.append(write_shard(spec, place, Examples(labels, documents)))
                    report(split, sum(shard.examples for shard in shards), None, True)
                records[split] = SplitRecord.of(shards, spec.num_classes)
            write_manifest(partial, manifest_of(spec, records, notes))
            removed(spec.folder)
            try:
                os.replace(partial, spec.folder)
            except OSError as error:
                raise StorageError(f"{spec.folder}: cannot be written: {error.strerror or error}") from error
        finally:
            removed(partial)
        return open_spec(spec)


def manifest_of(spec: Spec, splits: dict[Split, SplitRecord], notes: Mapping[str, object] | None = None) -> Manifest:
    """The manifest of a folder with these splits."""
    return Manifest(
        spec.task,
        spec.parameters,
        spec.vocab_size,
        spec.num_classes,
        spec.num_documents,
        spec.shard_size,
        splits,
        notes or {},
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write manifest.json, whole or not at all. Raises: StorageError."""
    write_whole(folder / MANIFEST, manifest.text().encode())


def write_shard(spec: Spec, place: Path, examples: Examples) -> ShardRecord:
    """Write a shard, whole or not at all, in place of what was there. Raises: StorageError."""
    arrays = [examples.labels.astype(np.min_scalar_type(spec.num_classes - 1))]
    for tokens, offsets in examples.documents:
        assert not len(tokens) or int(tokens.max()) < spec.vocab_size
        arrays += [tokens.astype(spec.token_type), offsets.astype(np.int64)]
    assert len(examples.documents) == spec.num_documents
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    files: dict[str, list[object]] = {}
    try:
        partial.mkdir(parents=True, exist_ok=True)
        for name, array in zip(file_names(spec.num_documents), arrays, strict=True):
            text = io.BytesIO()
            np.save(text, array)
            write_synced(partial / name, text.getvalue())
            files[name] = [len(text.getvalue()), hashlib.sha256(text.getvalue()).hexdigest()]
        removed(place)
        os.replace(partial, place)
    except OSError as error:
        raise StorageError(f"{place}: cannot be written: {error.strerror or error}") from error
    finally:
        removed(partial)
    return ShardRecord(len(examples.labels), _classes(examples.labels, spec), files)


def _classes(labels: np.ndarray, spec: Spec) -> list[int]:
    return [int(count) for count in np.bincount(labels, minlength=spec.num_classes)]


def _kept(spec: Spec, piece: Piece) -> ShardRecord | None:
    """The record of a shard that an earlier call made; None if it is not there or not whole."""
    place = shard_folder(spec.folder, piece.split, piece.number)
    files: dict[str, list[object]] = {}
    arrays = []
    try:
        for name in file_names(spec.num_documents):
            content = (place / name).read_bytes()
            files[name] = [len(content), hashlib.sha256(content).hexdigest()]
            arrays.append(np.load(io.BytesIO(content)))
    except (OSError, ValueError, EOFError):
        return None
    labels, *rest = arrays
    documents = [Ragged(*pair) for pair in zip(rest[::2], rest[1::2], strict=True)]
    whole = all(
        len(offsets) == piece.stop - piece.start + 1 and offsets[-1] == len(tokens) for tokens, offsets in documents
    )
    if not whole or len(labels) != piece.stop - piece.start:
        return None
    return ShardRecord(len(labels), _classes(labels, spec), files)


def _clean(spec: Spec) -> None:
    """Take away a manifest that does not hold, the shards of other parameters, and what a kill left half written."""
    try:
        found = Manifest.read(spec.folder, spec.again)
        others = (found.task, found.parameters, found.shard_size) != (spec.task, spec.parameters, spec.shard_size)
    except DataMissing:
        others = False
    except DataError:
        others = True
    try:
        removed(spec.folder if others else spec.folder / MANIFEST)
        for split in SPLITS:
            for partial in (spec.folder / split).glob(".*"):
                removed(partial)
    except OSError as error:
        raise StorageError(f"{spec.folder}: cannot be cleaned: {error.strerror or error}") from error


def _made(spec: Spec, producer: Producer, pieces: list[Piece], workers: int) -> Iterator[tuple[Piece, ShardRecord]]:
    """Make these shards; each is given once it is on the disk."""
    workers = min(workers, len(pieces))
    if workers <= 1:
        for piece in pieces:
            yield piece, _make_one(spec, producer, piece)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_parent) as pool:
        rest = iter(pieces)
        with _ignored_interrupts():
            waiting = {pool.submit(_make_one, spec, producer, piece): piece for piece in islice(rest, workers)}
        while waiting:  # no more are handed out than there are processes, so that Ctrl-C waits for these alone
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), _result(future)
                waiting.update((pool.submit(_make_one, spec, producer, piece), piece) for piece in islice(rest, 1))


def end_with_parent() -> None:
    """In a pool's process: end it with the one that began it, if that is killed; its queue would never end."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _result(future: Future[ShardRecord]) -> ShardRecord:
    try:
        return future.result()
    except BrokenProcessPool:
        raise RunFailed(
            "a process that made examples was killed (for its memory?); what was made is kept, and the same command "
            "goes on; -j 1 needs least memory"
        ) from None


def _make_one(spec: Spec, producer: Producer, piece: Piece) -> ShardRecord:
    examples = producer(piece.split, piece.start, piece.stop)
    return write_shard(spec, shard_folder(spec.folder, piece.split, piece.number), examples)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Processes begun here ignore Ctrl-C, which goes to all of a terminal: the first one lets them finish shards."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
