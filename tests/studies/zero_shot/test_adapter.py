"""Scores against one forward pass a token, and the whole command over all sets."""

import csv

import pytest
import torch

pytest.importorskip("lm_eval", reason="make test-eval installs lm-evaluation-harness")

from studies.sittings import zeta
from studies.zero_shot.questions import QUESTIONS, write_sets

from zeta_core.attention import SoftmaxConfig, ZetaConfig
from zeta_core.model import ModelConfig
from zeta_core.studies.zero_shot.adapter import ZetaLM, gammas_of, set_gamma
from zeta_core.tasks.tokenizers import ByteTokenizer

BYTES = ByteTokenizer()
MIXERS = {
    "softmax": SoftmaxConfig(),
    "fixed chunks": ZetaConfig(top_k=4, chunk_size=5, num_chunks=None, local_window=3),
    "chunks by number": ZetaConfig(top_k=4, num_chunks=4, local_window=3),
}


def network(mixer, max_len=40):
    torch.manual_seed(0)
    model = ModelConfig(d_model=16, num_layers=1).build(mixer, vocab_size=BYTES.vocab_size, max_len=max_len)
    with torch.no_grad():
        model.embedding.weight.mul_(4)
    return model.eval()


@torch.no_grad()
def slowly(model, context, continuation):
    """The sum of log probabilities, each token from a pass over the last max_len tokens of all before it."""
    context = list(BYTES.encode(context)) or [BYTES.separator]
    whole = [*context, *BYTES.encode(continuation)][-(model.max_len + 1) :]
    total, greedy = 0.0, True
    first = max(1, len(whole) - len(BYTES.encode(continuation)))
    # One pass over all that is read, since chunks by number depend on its length.
    logits = model(torch.tensor([whole[:-1]])).log_softmax(-1)
    for place in range(first, len(whole)):
        total += float(logits[place - 1, whole[place]])
        greedy &= int(logits[place - 1].argmax()) == whole[place]
    return total, greedy


class Asked:
    def __init__(self, *args):
        self.args = args


@pytest.mark.parametrize("mixer", MIXERS.values(), ids=MIXERS.keys())
def test_scores_are_those_of_one_text_alone(mixer):
    model = network(mixer)
    pairs = [("ab", " c"), ("", "xyz"), ("a much longer context", " and more"), ("q" * 60, "rs"), ("a", "b" * 50)]
    lm = ZetaLM(model, BYTES)
    found = lm.loglikelihood([Asked(*pair) for pair in pairs])
    for (score, greedy), pair in zip(found, pairs, strict=True):
        expected = slowly(model, *pair)
        assert score == pytest.approx(expected[0], rel=1e-4) and greedy == expected[1]
    assert lm.cut == 2


def test_the_likeliest_continuation_is_greedy():
    model = network(MIXERS["softmax"])
    lm, text = ZetaLM(model, BYTES), "abc"
    (written,) = lm.generate_until([Asked(text, {"until": [], "max_gen_toks": 4})])
    if len(BYTES.encode(written)) == 4 and "\ufffd" not in written:
        assert lm.loglikelihood([Asked(text, written)])[0][1]
    (cut,) = lm.generate_until([Asked(text, {"until": [written[1]], "max_gen_toks": 4})])
    assert written[1] not in cut and written.startswith(cut)


@torch.no_grad()
def test_a_long_text_is_scored_in_windows():
    model = network(MIXERS["softmax"])
    text = "0123456789" * 9
    (score,) = ZetaLM(model, BYTES).loglikelihood_rolling([Asked(text)])
    tokens = list(BYTES.encode(text))
    expected = 0.0
    for start in range(0, len(tokens), 40):
        read = [tokens[start - 1] if start else BYTES.separator, *tokens[start : start + 40]]
        logits = model(torch.tensor([read[:-1]])).log_softmax(-1)
        expected += sum(float(logits[place, token]) for place, token in enumerate(read[1:]))
    assert score == pytest.approx(expected, rel=1e-5)


def test_gamma_is_reset_or_fixed():
    model = network(MIXERS["fixed chunks"])
    model.blocks[0].mixer.gamma_logit.data.fill_(1.0)
    set_gamma(model, "trained", -3.0)
    assert float(gammas_of(model)[0][0]) == pytest.approx(0.731, abs=1e-3)
    set_gamma(model, "reset", -3.0)
    assert float(gammas_of(model)[0][0]) == pytest.approx(0.0474, abs=1e-3)
    set_gamma(model, "1", -3.0)
    assert gammas_of(model)[0].tolist() == [1.0, 1.0]
    assert gammas_of(network(MIXERS["softmax"])) == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    (folder / "texts").mkdir()
    for number in range(60):
        (folder / "texts" / f"{number}.txt").write_text(f"{number} cats sat on the mat. " * 12)
    words = ["train", "language", "--set", "task.source=text", "--set", f"task.path={folder / 'texts'}"]
    words += ["--set", "task.seq_len=64", "--set", "model.d_model=16", "--set", "model.num_layers=1"]
    words += ["--steps", "4", "--batch-size", "4", "--wandb", "off", "--out", str(folder / "out")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZETA_DATA", str(folder / "data"))
        assert zeta(words) == 0
        yield folder


def test_all_sets_are_asked(trained, tmp_path, capsys):
    (run,) = (trained / "out" / "runs").iterdir()
    sets = write_sets(tmp_path / "sets")
    assert zeta(["eval", run.name, "--data", str(sets), "--out", str(trained / "out"), "--limit", "2"]) == 0
    with (trained / "out" / "results" / "zero_shot.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["questions"] for row in rows} == set(QUESTIONS)
    assert {row["metric"] for row in rows if row["questions"] == "boolq"} == {"acc"}
    for row in rows:
        assert row["num_questions"] == "2" and row["harness"] and 0 <= float(row["value"]) <= 1
        assert float(row["chance"]) == pytest.approx(
            {"arc_easy": 1 / 3, "arc_challenge": 1 / 3}.get(
                row["questions"], 1 / 2 if row["questions"] in ("piqa", "boolq", "wsc273") else 1 / 4
            )
        )
    assert "lm-evaluation-harness" in capsys.readouterr().out


def test_a_second_gamma_is_a_row_of_its_own(trained, tmp_path):
    (run,) = (trained / "out" / "runs").iterdir()
    sets = write_sets(tmp_path / "sets")
    words = ["eval", str(run), "--data", str(sets), "--out", str(tmp_path), "--tasks", "boolq"]
    assert zeta([*words, "--gamma", "trained,reset,1"]) == 0
    assert zeta([*words, "--gamma", "1"]) == 0
    with (tmp_path / "results" / "zero_shot.csv").open() as file:
        assert sorted(row["gamma"] for row in csv.DictReader(file)) == ["1", "reset", "trained"]


def test_bad_requests_write_nothing(trained, tmp_path, capsys):
    (run,) = (trained / "out" / "runs").iterdir()
    sets = write_sets(tmp_path / "sets", piqa=[{"goal": "x"}])
    for words, reason in (
        (["--tasks", "pika"], "'pika' is not one of"),
        (["--tasks", "piqa"], "sol1 is missing"),
        (["--limit", "0"], "limit=0 must be at least 1"),
        (["--gamma", "huge"], "neither trained nor reset"),
        (["--data", str(tmp_path / "none")], "has no piqa"),
    ):
        assert zeta(["eval", str(run), "--data", str(sets), "--out", str(tmp_path / "out"), *words]) == 2
        assert reason in capsys.readouterr().err
    assert zeta(["eval", "no-such-run", "--data", str(sets), "--out", str(trained / "out")]) == 2
    assert "the nearest there" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
