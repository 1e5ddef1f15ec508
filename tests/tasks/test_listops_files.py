"""Long Range Arena's ListOps files: the tokens that generated trees have, or a line that says what is wrong."""

import numpy as np
import pytest
from tasks.imports import bring_in
from tasks.official import EXPRESSIONS, listops

from zeta_core.errors import DataError, DataMissing
from zeta_core.tasks import ListOpsConfig
from zeta_core.tasks.listops_files import ListOpsFilesConfig


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "data"))
    return tmp_path


def test_expressions_are_the_generated_task_s_tokens(root):
    with pytest.raises(DataMissing, match=r"basic_train.tsv, .*zeta data import listops_lra PATH"):
        ListOpsFilesConfig().build()
    bring_in(ListOpsFilesConfig, listops(root / "listops-1000"))
    task = ListOpsFilesConfig().build()
    batch = task.parts["test"][0].batch(np.arange(3))
    for row, mask, (_, target, tokens), label in zip(
        batch.tokens, batch.key_padding_mask, EXPRESSIONS, batch.labels, strict=True
    ):
        assert row[~mask].tolist() == tokens and label == target
        assert (row[mask] == 15).all()
    assert (task.vocab_size, task.num_classes, task.max_len) == (ListOpsConfig.vocab_size, 10, 2000)
    assert task.source == "Long Range Arena's ListOps"


WRONG_LINES = {
    "columns": ("( [MAX 1 ] )", "has 1 columns instead of 2 (Source, Target)"),
    "class": ("( [MAX 1 ] )\t10", "Target='10' is none of the classes 0..9"),
    "no class": ("( [MAX 1 ] )\t]", "Target=']' is none of the classes"),
    "word": ("( [SUM 1 ] )\t1", "'[SUM' is no part of an expression"),
    "open": ("( [MAX 1 [MIN 2 ] )\t1", "has 1 operators that are not closed"),
    "closed twice": ("( [MAX 1 ] ] )\t1", "goes on with ']' behind the end"),
    "closed first": ("] [MAX\t1", "closes an operator without arguments"),
    "no arguments": ("[MAX 1 [MIN ] ]\t1", "closes an operator without arguments"),
    "empty": ("( )\t1", "holds no expression"),
}


@pytest.mark.parametrize(("line", "message"), WRONG_LINES.values(), ids=WRONG_LINES.keys())
def test_a_wrong_line_is_named(line, message, root):
    path = listops(root / "listops-1000")
    with (path / "basic_val.tsv").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError) as raised:
        bring_in(ListOpsFilesConfig, path)
    assert "basic_val.tsv:5: " in str(raised.value) and message in str(raised.value)


def test_files_that_are_missing_or_broken_are_named(root):
    path = listops(root / "listops-1000")
    (path / "basic_val.tsv").write_text("( [MAX 1 ] )\t1\n")
    with pytest.raises(DataError, match=r"basic_val.tsv:1: must be the header Source, Target"):
        bring_in(ListOpsFilesConfig, path)
    (path / "basic_val.tsv").write_text("Source\tTarget\n")
    with pytest.raises(DataError, match=r"basic_val.tsv: holds no rows"):
        bring_in(ListOpsFilesConfig, path)
    (path / "basic_val.tsv").unlink()
    with pytest.raises(DataError, match=r"basic_val.tsv: there is no such file, so no validation split"):
        bring_in(ListOpsFilesConfig, path)
    with pytest.raises(DataError, match=r"does not have Long Range Arena's ListOps"):
        bring_in(ListOpsFilesConfig, root)
