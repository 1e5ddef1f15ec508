"""`zeta list` names what there is, with the words of each class."""

import pytest

from zeta_cli.app import main
from zeta_core.attention import AttentionConfig
from zeta_core.config import kinds
from zeta_core.tasks import TaskConfig

MEMBERS = {**kinds(TaskConfig), **kinds(AttentionConfig)}


@pytest.mark.parametrize(("kind", "config_type"), MEMBERS.items(), ids=MEMBERS.keys())
def test_every_member_is_listed_with_a_phrase(kind, config_type, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list"]) == 0
    shown, said = capsys.readouterr()
    line = next(line for line in shown.splitlines() if line.split()[:1] == [kind])
    assert " ".join(config_type.__doc__.splitlines()[0].split()) in " ".join(line.split())
    for preset in getattr(config_type, "presets", ()):
        assert preset in line
    assert said == ""


def test_tasks_and_mixers_stand_under_their_titles(capsys):
    main(["list"])
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert shown.index("tasks") < shown.index("attention")
