"""`zeta list` names what there is, with the words of each class."""

import pytest

from zeta_cli.app import main
from zeta_core.attention import AttentionConfig
from zeta_core.config import kinds
from zeta_core.studies.ablate.axes import AnyAxis
from zeta_core.studies.bench.providers import AnyProvider
from zeta_core.tasks import TaskConfig

MEMBERS = [pair for union in (TaskConfig, AttentionConfig, AnyAxis, AnyProvider) for pair in kinds(union).items()]


@pytest.mark.parametrize(("kind", "config_type"), MEMBERS)
def test_every_member_is_listed_with_a_phrase(kind, config_type, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list"]) == 0
    shown, said = capsys.readouterr()
    lines = [" ".join(line.split()) for line in shown.splitlines() if line.split()[:1] == [kind]]
    line = next(line for line in lines if " ".join(config_type.__doc__.splitlines()[0].split()) in line)
    for preset in getattr(config_type, "presets", ()):
        assert preset in line
    assert said == ""


def test_tasks_and_mixers_stand_under_their_titles(capsys):
    main(["list"])
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert shown.index("tasks") < shown.index("attention")
