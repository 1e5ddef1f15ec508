"""The eight sets of questions: what a line of each holds, and the harness's own tasks that ask them.

The files are JSON lines with the fields of the data sets that the harness's stock tasks read, in a folder of the
user's: NAME.jsonl or NAME_SPLIT.jsonl, or either packed as .jsonl.gz or .jsonl.xz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from zeta_core.errors import ConfigError, DataError, DataMissing
from zeta_core.layers import did_you_mean
from zeta_core.tasks.json_lines import ENDS, json_lines

Text = Annotated[str, Field(min_length=1)]
Two = Annotated[list[Text], Field(min_length=2, max_length=2)]
Four = Annotated[list[Text], Field(min_length=4, max_length=4)]


class Question(BaseModel):
    """One line: the fields that the stock task reads; others may be there."""

    model_config = ConfigDict(strict=True, extra="allow")

    def num_choices(self) -> int:
        """How many answers there are to choose from."""
        return 2


class Piqa(Question):
    """Physical common sense (Bisk et al. 2020)."""

    goal: Text
    sol1: Text
    sol2: Text
    label: Literal[0, 1]


class BoolQ(Question):
    """Yes or no about a passage (Clark et al. 2019), in the form of SuperGLUE."""

    passage: Text
    question: Text
    label: Literal[0, 1]


class Wsc273(Question):
    """Winograd schemas (Levesque et al. 2012)."""

    text: Text
    pronoun: Text
    pronoun_loc: int
    options: Two
    label: Literal[0, 1]


class HellaSwag(Question):
    """How a scene goes on (Zellers et al. 2019)."""

    activity_label: Text
    ctx_a: str
    ctx_b: str
    endings: Four
    label: Literal["0", "1", "2", "3"]

    def num_choices(self) -> int:
        """Four endings."""
        return 4


class Mmlu(Question):
    """Examinations in 57 subjects (Hendrycks et al. 2021)."""

    question: Text
    subject: Text
    choices: Annotated[list[str], Field(min_length=4, max_length=4)]
    answer: Literal[0, 1, 2, 3]

    def num_choices(self) -> int:
        """A to D."""
        return 4


class Labelled(BaseModel):
    """Answers and their names, side by side."""

    model_config = ConfigDict(strict=True)

    text: Annotated[list[Text], Field(min_length=2)]
    label: list[Text]


class Lettered(Question):
    """A question whose answers have names such as A to D."""

    choices: Labelled
    answerKey: Text

    def num_choices(self) -> int:
        """As many as there are; mostly four."""
        return len(self.choices.text)

    @model_validator(mode="after")
    def _answer_is_there(self) -> Self:
        if len(self.choices.label) != len(self.choices.text):
            raise ValueError(f"choices has {len(self.choices.text)} text and {len(self.choices.label)} label")
        if self.answerKey not in self.choices.label:
            raise ValueError(f"answerKey={self.answerKey!r} is none of choices.label {self.choices.label}")
        return self


class Arc(Lettered):
    """School science (Clark et al. 2018)."""

    question: Text


class OpenBookQa(Lettered):
    """Elementary science (Mihaylov et al. 2018)."""

    question_stem: Text


@dataclass(frozen=True)
class QuestionSet:
    """One set. split: the one that is asked. line: what a line is. subject: the field by which the harness has a
    task for each value, named after the set and the value."""

    name: str
    split: Literal["validation", "test"]
    line: type[Question]
    subject: str | None = None

    def find(self, folder: Path) -> Path:
        """The set's file. Raises: DataMissing with the names that it may have."""
        names = [f"{stem}{end}" for stem in (f"{self.name}_{self.split}", self.name) for end in ENDS]
        found = next((folder / name for name in names if (folder / name).is_file()), None)
        if found is None:
            raise DataMissing(
                f"{folder}: has no {self.name}; put there one of {', '.join(names)}, with the fields "
                f"{', '.join(self.line.model_fields)}, or choose another folder with --data"
            )
        return found

    def read(self, folder: Path) -> list[dict[str, Any]]:
        """The set's questions. Raises: DataMissing; DataError naming the line and the field that is off."""
        path, rows = self.find(folder), []
        for place, values in json_lines(path):
            try:
                self.line.model_validate(values)
            except ValidationError as error:
                raise DataError(f"{place}: {said(error)}; {self.name} needs {fields_of(self.line)}") from None
            rows.append(dict(values))
        if not rows:
            raise DataError(f"{path}: holds no questions")
        return rows

    def tasks(self, rows: Sequence[dict[str, Any]], limit: int | None) -> dict[str, list[dict[str, Any]]]:
        """The questions of each of the harness's tasks, the first `limit` of them."""
        if self.subject is None:
            return {self.name: list(rows[:limit])}
        found: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            found.setdefault(f"{self.name}_{row[self.subject]}", []).append(row)
        return {name: of[:limit] for name, of in found.items()}


def said(error: ValidationError) -> str:
    """The first thing that is wrong, with its field."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    reason = "is missing" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
    return f"{field}: {reason}" if field and reason != "is missing" else f"{field} {reason}".strip()


def fields_of(line: type[BaseModel]) -> str:
    """A line's fields, those of an inner object in braces."""
    names = []
    for name, field in line.model_fields.items():
        inner = field.annotation
        nested = isinstance(inner, type) and issubclass(inner, BaseModel)
        names.append(f"{name} {{{fields_of(inner)}}}" if nested and isinstance(inner, type) else name)
    return ", ".join(names)


SETS = {
    found.name: found
    for found in (
        QuestionSet("piqa", "validation", Piqa),
        QuestionSet("arc_easy", "test", Arc),
        QuestionSet("arc_challenge", "test", Arc),
        QuestionSet("hellaswag", "validation", HellaSwag),
        QuestionSet("boolq", "validation", BoolQ),
        QuestionSet("openbookqa", "test", OpenBookQa),
        QuestionSet("wsc273", "test", Wsc273),
        QuestionSet("mmlu", "test", Mmlu, subject="subject"),
    )
}


def chosen(names: Sequence[str]) -> list[QuestionSet]:
    """The sets of these names. Raises: ConfigError with the list for an unknown or repeated one."""
    for number, name in enumerate(names):
        if name not in SETS:
            raise ConfigError(f"--tasks: {name!r} is not one of {', '.join(SETS)}{did_you_mean(name, SETS)}")
        if name in names[:number]:
            raise ConfigError(f"--tasks: {name} is there twice; name it once")
    return [SETS[name] for name in names]
