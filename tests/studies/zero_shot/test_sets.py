"""Files of questions: read as they are, and refused with their line and field."""

import json
from types import SimpleNamespace

import pytest
import torch
from studies.zero_shot.questions import QUESTIONS, write_sets

from zeta_core.errors import ConfigError, DataError, DataMissing, RequestError
from zeta_core.studies.zero_shot import study
from zeta_core.studies.zero_shot.sets import SETS, chosen
from zeta_core.studies.zero_shot.study import gammas_asked
from zeta_core.tasks.tokenizers import ByteTokenizer


def test_every_set_is_read(tmp_path):
    folder = write_sets(tmp_path)
    for name, found in SETS.items():
        rows = found.read(folder)
        assert rows == [QUESTIONS[name]] * 4
        assert found.line.model_validate(rows[0]).num_choices() == {"arc_easy": 3, "arc_challenge": 3}.get(
            name, 2 if name in ("piqa", "boolq", "wsc273") else 4
        )


def test_a_plain_file_without_its_split_will_do(tmp_path):
    (tmp_path / "piqa.jsonl").write_text(json.dumps(QUESTIONS["piqa"]) + "\n\n")
    assert SETS["piqa"].read(tmp_path) == [QUESTIONS["piqa"]]


def test_mmlu_is_asked_by_subject_and_the_limit_is_each_task_s():
    rows = [{**QUESTIONS["mmlu"], "subject": subject} for subject in ("anatomy", "virology", "anatomy", "anatomy")]
    assert {name: len(of) for name, of in SETS["mmlu"].tasks(rows, 2).items()} == {
        "mmlu_anatomy": 2,
        "mmlu_virology": 1,
    }
    assert {name: len(of) for name, of in SETS["piqa"].tasks(rows, None).items()} == {"piqa": 4}


def without(name, field):
    return {key: value for key, value in QUESTIONS[name].items() if key != field}


WRONG = [
    (
        "piqa",
        without("piqa", "sol2"),
        r"piqa_validation.jsonl.gz:2: sol2 is missing; piqa needs goal, sol1, sol2, label",
    ),
    ("piqa", {**QUESTIONS["piqa"], "label": 2}, r":2: label: Input should be 0 or 1"),
    ("piqa", {**QUESTIONS["piqa"], "goal": ""}, r":2: goal: "),
    ("arc_easy", {**QUESTIONS["arc_easy"], "answerKey": "E"}, r":2: answerKey='E' is none of choices.label"),
    (
        "arc_easy",
        {**QUESTIONS["arc_easy"], "choices": {"text": ["a", "b"]}},
        r":2: choices.label is missing; .*\{text, ",
    ),
    ("arc_easy", {**QUESTIONS["arc_easy"], "choices": {"text": ["a", "b"], "label": ["A"]}}, "2 text and 1 label"),
    ("hellaswag", {**QUESTIONS["hellaswag"], "endings": ["a"]}, r":2: endings: List should have at least 4 items"),
    ("mmlu", without("mmlu", "subject"), r":2: subject is missing"),
    ("boolq", "{broken\n", r":2: is not JSON"),
    ("boolq", "[1]\n", r":2: is not an object"),
]


@pytest.mark.parametrize(("name", "line", "words"), WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, line, words):
    folder = write_sets(tmp_path, **{name: [QUESTIONS[name], line]})
    with pytest.raises(DataError, match=words):
        SETS[name].read(folder)


def test_what_is_missing_or_empty(tmp_path):
    with pytest.raises(DataMissing, match=r"has no piqa; put there one of piqa_validation.jsonl, .*--data"):
        SETS["piqa"].read(tmp_path)
    with pytest.raises(DataError, match="holds no questions"):
        SETS["piqa"].read(write_sets(tmp_path, piqa=[]))


def test_names_and_gammas_are_checked():
    assert [found.name for found in chosen(["mmlu", "piqa"])] == ["mmlu", "piqa"]
    with pytest.raises(ConfigError, match=r"'piqua' is not one of piqa, .*did you mean 'piqa'"):
        chosen(["piqua"])
    with pytest.raises(ConfigError, match="piqa is there twice"):
        chosen(["piqa", "piqa"])
    assert gammas_asked(["trained", "reset", "1", "0.5"]) == ("trained", "reset", "1", "0.5")
    for wrong in ("big", "0", "-1", "nan", "1e9"):
        with pytest.raises(ConfigError, match="neither trained nor reset nor a number"):
            gammas_asked([wrong])
    with pytest.raises(ConfigError, match="1 is there twice"):
        gammas_asked(["1", "1.0"])


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe"], ids=["other columns", "no text"])
def test_a_table_that_takes_no_rows_is_refused_before_anything_is_asked(tmp_path, monkeypatch, content):
    monkeypatch.setattr(study, "check_harness", lambda: None)
    table = tmp_path / "results" / "zero_shot.csv"
    table.parent.mkdir()
    table.write_bytes(content)
    saved = SimpleNamespace(tokenizer=ByteTokenizer)
    with pytest.raises(RequestError, match=r"zero_shot\.csv: rows cannot be added to it"):
        study.run_eval(saved, [], device=torch.device("cpu"), out=tmp_path, monitor=None)
    assert table.read_bytes() == content
