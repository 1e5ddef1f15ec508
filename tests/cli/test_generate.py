"""`zeta generate` and `zeta export` typed by hand."""

import shutil

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from studies.sittings import folder_of, tiny, zeta

from zeta_cli.app import main
from zeta_core.generate import Sampling, decoding_state, generate
from zeta_core.studies.generation import Text
from zeta_core.studies.saved_model import load
from zeta_core.tasks.tokenizers import ByteTokenizer, WordTokenizer


def language(out, *more):
    """The command line of a tiny language run on a text file in `out`."""
    (out / "text.txt").write_text("".join(f"the cat number {i} sees a dog — naïve\n" for i in range(150)))
    return [
        "train", "language", "--seq", "32", "--steps", "4", "--batch-size", "4", "--k", "4", "--wandb", "off",
        "--device", "cpu", "--set", "task.source=text", "--set", f"task.path={out / 'text.txt'}", "--set",
        "attention.chunk_size=8", "--set", "model.d_model=16", "--set", "model.num_layers=1", "--set",
        "model.num_heads=2", "--set", "training.eval_every=2", "--out", str(out), *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    out = tmp_path_factory.mktemp("texts")
    patch = pytest.MonkeyPatch()
    patch.setenv("ZETA_DATA", str(out / "data"))
    assert zeta(language(out)) == 0
    yield out
    patch.undo()


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A run of MQAR with chunks by number."""
    out = tmp_path_factory.mktemp("numbers")
    assert zeta(tiny(out)) == 0
    return out


@pytest.fixture
def say(capsys):
    """A command line's exit code, standard output and standard error."""
    capsys.readouterr()

    def said(*argv):
        code = main([str(word) for word in argv])
        return (code, *capsys.readouterr())

    return said


def test_text_is_what_the_library_draws(texts, say):
    run = folder_of(texts)
    code, out, err = say(
        "generate", run.name, "--out", texts, "--prompt", "the c", "--max-tokens", "12", "--seed", "3"
    )
    prompt = [256, *b"the c"]
    drawn = list(generate(decoding_state(load(run)), prompt, max_tokens=12, sampling=Sampling(seed=3), stop=256))
    assert code == 0 and out == ByteTokenizer().decode(drawn) + "\n"
    assert err.startswith(f"zeta: {len(drawn)} tokens: ") and " a second, after " in err and "prompt of 6" in err
    assert err.count("\n") == 1


def test_the_same_seed_gives_the_same_text(texts, say, tmp_path):
    argv = ("generate", folder_of(texts), "--prompt", "the", "--max-tokens", "20")
    first, other = say(*argv, "--seed", "1")[1], say(*argv, "--seed", "2")[1]
    assert say(*argv, "--seed", "1")[1] == first != other
    greedy = say(*argv, "--temperature", "0")[1]
    assert greedy == say(*argv, "--temperature", "0", "--seed", "5")[1] == say(*argv, "--top-k", "1")[1]
    (tmp_path / "prompt.txt").write_text("the")
    assert (
        say("generate", folder_of(texts), "--prompt-file", tmp_path / "prompt.txt", *argv[4:], "--seed", "1")[1]
        == first
    )


def test_without_a_number_the_positions_are_filled_and_it_says_so(texts, say):
    code, _, err = say("generate", folder_of(texts), "--prompt", "the c", "--temperature", "0")
    assert code == 0 and err.startswith("zeta: 27 tokens: ") and "it came to the model's last position" in err


def test_the_separator_ends_the_text(texts, say, monkeypatch):
    monkeypatch.setattr(Sampling, "draw", lambda self, logits, _: torch.full((len(logits),), 256))
    code, out, err = say("generate", folder_of(texts), "--prompt", "the c")
    assert code == 0 and out == "\n" and "0 tokens" in err and "it ended with the separator" in err


def test_a_task_without_text_takes_and_gives_numbers(numbers, say):
    code, out, err = say(
        "generate", folder_of(numbers), "--prompt", "3 17 5", "--max-tokens", "6", "--temperature", "0"
    )
    assert code == 0 and len(out.split()) == 6 and all(0 <= int(word) < 32 for word in out.split())
    first, second = err.splitlines()
    assert first.startswith("zeta: note: each token runs the whole text again: num_chunks=4 moves the chunks")
    assert "train with attention.chunk_size" in first and "max_tokens=6 reached" in second


def test_an_exported_model_says_the_same(texts, say, tmp_path):
    run = folder_of(texts)
    code, out, _ = say("export", run.name, "--out", texts, "--to", tmp_path / "model")
    assert code == 0 and "model.safetensors" in out and "zeta_core.load(" in out
    argv = ("--prompt", "the", "--max-tokens", "9", "--seed", "1")
    assert say("generate", tmp_path / "model", *argv)[:2] == say("generate", run, *argv)[:2]
    code, out, err = say("export", run, "--to", tmp_path / "model")
    assert code == 2 and out == "" and "is not empty, and nothing is overwritten" in err and err.count("\n") == 1


BAD = {
    "no prompt": ([], "give a prompt: --prompt TEXT or --prompt-file FILE"),
    "two prompts": (["--prompt", "a", "--prompt-file", "b"], "give one prompt alone"),
    "empty": (["--prompt", ""], "the prompt is empty"),
    "not UTF-8": (["--prompt", "a\udcff"], "the prompt has bytes that are not UTF-8"),
    "no file": (["--prompt-file", "gone.txt"], "--prompt-file gone.txt: cannot be read: No such file"),
    "top-p 0": (["--prompt", "a", "--top-p", "0"], "--top-p: top_p=0.0: must be more than 0"),
    "top-p 2": (["--prompt", "a", "--top-p", "2"], "--top-p: top_p=2.0: must be at most 1"),
    "top-k": (["--prompt", "a", "--top-k", "0"], "--top-k: top_k=0: must be more than 0"),
    "temperature": (["--prompt", "a", "--temperature", "-1"], "--temperature: temperature=-1.0: must be at least 0"),
    "seed": (["--prompt", "a", "--seed", "-1"], "--seed: seed=-1"),
    "max tokens": (["--prompt", "a", "--max-tokens", "0"], "--max-tokens: max_tokens=0 must be at least 1"),
    "device": (["--prompt", "a", "--device", "gpu"], "device='gpu' is not there"),
    "too long": (["--prompt", "a" * 40], "a prompt of 41 tokens and 1 more do not fit"),
    "too many": (["--prompt", "a", "--max-tokens", "32"], "learned positions for 32; give fewer, or train with"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "message"), BAD.values(), ids=BAD)
def test_bad_requests_are_one_line(texts, say, words, message):
    code, out, err = say("generate", folder_of(texts), *words)
    assert code == 2 and message in err and err.count("\n") == 1 and out == ""


def test_a_prompt_file_is_utf_8(texts, say, tmp_path):
    (tmp_path / "prompt.txt").write_bytes(b"caf\xe9")
    code, _, err = say("generate", folder_of(texts), "--prompt-file", tmp_path / "prompt.txt")
    assert code == 2 and "byte 3 is not UTF-8" in err


@pytest.mark.parametrize(("prompt", "message"), [("3 x", "'x' in the prompt"), ("3 32", "0..31"), (" ", "is empty")])
def test_numbers_are_the_task_s(numbers, say, prompt, message):
    code, _, err = say("generate", folder_of(numbers), "--prompt", prompt)
    assert code == 2 and message in err and err.count("\n") == 1


def test_no_such_run(numbers, say):
    for command in (["generate", "mqar-zeta-0", "--prompt", "1"], ["export", "mqar-zeta-0", "--to", "x"]):
        code, _, err = say(*command, "--out", numbers)
        assert code == 2 and f"the nearest there: {folder_of(numbers).name}" in err and err.count("\n") == 1


def test_what_does_not_generate_is_refused(numbers, say, tmp_path):
    run = tmp_path / "runs" / "an-encoder"
    shutil.copytree(folder_of(numbers), run)
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["model"]["form"] = "encoder"
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    code, _, err = say("generate", "an-encoder", "--out", tmp_path, "--prompt", "1")
    assert code == 2 and "only a decoder generates" in err and err.count("\n") == 1


def test_another_version_s_configuration_names_its_field(numbers, say, tmp_path):
    run = tmp_path / "runs" / "another"
    shutil.copytree(folder_of(numbers), run)
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("  top_k: 4\n", "  top_k: 4\n  top_q: 4\n"))
    code, _, err = say("generate", "another", "--out", tmp_path, "--prompt", "1")
    assert code == 2 and "attention.top_q: unknown field" in err and err.count("\n") == 1


def test_another_vocabulary_is_refused(texts, say, tmp_path):
    run = tmp_path / "runs" / "another"
    shutil.copytree(folder_of(texts), run)
    weights = load_file(run / "best" / "model.safetensors")
    weights["embedding.weight"] = weights["embedding.weight"][:200].clone()
    save_file(weights, run / "best" / "model.safetensors")
    for command in (["generate", "another", "--prompt", "1"], ["export", "another", "--to", tmp_path / "model"]):
        code, out, err = say(*command, "--out", tmp_path)
        assert code == 2 and "it has 257 tokens (bytes), the model 200" in err and err.count("\n") == 1 and out == ""
    assert not (tmp_path / "model").exists()


def test_an_unfinished_run_says_so(numbers, say, tmp_path):
    run = tmp_path / "runs" / "begun"
    shutil.copytree(folder_of(numbers), run)
    (run / "state.json").write_text('{"status": "interrupted", "reason": ""}')
    code, _, err = say("generate", "begun", "--out", tmp_path, "--prompt", "1", "--max-tokens", "2")
    assert code == 0 and "the run's training has not come to an end" in err


@pytest.mark.parametrize(
    "tokenizer", [ByteTokenizer(), WordTokenizer(["<unk>", "<eos>", "naïve", "—", "漢字"])], ids=["bytes", "words"]
)
def test_pieces_join_to_the_text(tokenizer):
    """Whole characters alone are shown, and broken ones once it is clear that they are."""
    text = "naïve — 漢字\n— naïve 漢字\n\n" * 9
    tokens = tokenizer.encode(text).tolist()
    pieces = list(Text(tokenizer).spelled(iter(tokens)))
    assert "".join(pieces) == tokenizer.decode(tokens) and not any("\ufffd" in piece for piece in pieces)
    if isinstance(tokenizer, ByteTokenizer):
        broken = [0xFF, 0x41, *"🙂".encode(), 0x80, 0x80, 0x42, 0xF0, 0x9F] * 9
        assert "".join(Text(tokenizer).spelled(iter(broken))) == tokenizer.decode(broken)
