"""Models read back from runs and exported folders: the same logits, or one line on what is wrong."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from studies.sittings import folder_of, tiny, zeta

import zeta_core
from zeta_core.attention import ZetaConfig
from zeta_core.errors import ConfigError, DataError, RequestError, StorageError
from zeta_core.model import ModelConfig
from zeta_core.studies.export import export
from zeta_core.studies.saved_model import find_model, read_model
from zeta_core.tasks.tokenizers import ByteTokenizer, WordTokenizer

TEXT = [
    "train", "language", "--seq", "16", "--steps", "4", "--batch-size", "4", "--k", "4", "--wandb", "off", "--device",
    "cpu", "--set", "task.source=text", "--set", "attention.chunk_size=8", "--set", "model.d_model=16", "--set",
    "model.num_layers=1", "--set", "model.num_heads=2", "--set", "training.eval_every=2", "--set",
    "model.positions=none",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny MQAR run, and tiny language runs of bytes and of words on one text file."""
    out = tmp_path_factory.mktemp("trained")
    patch = pytest.MonkeyPatch()
    patch.setenv("ZETA_DATA", str(out / "data"))
    (out / "text.txt").write_text("".join(f"the cat number {i} sees a dog\n" for i in range(200)))
    assert zeta(tiny(out / "mqar")) == 0
    for kind in ("bytes", "words"):
        argv = [*TEXT, "--set", f"task.path={out / 'text.txt'}", "--set", f"task.tokenizer={kind}"]
        assert zeta([*argv, "--out", str(out / kind)]) == 0
    yield out
    patch.undo()


@pytest.fixture
def copy(trained, tmp_path):
    """The folder of the MQAR run, to be broken."""
    return Path(shutil.copytree(folder_of(trained / "mqar"), tmp_path / "runs" / "a-run"))


def logits(network, vocab_size):
    tokens = torch.randint(vocab_size, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return network(tokens)


@pytest.mark.parametrize("kind", ["mqar", "bytes", "words"])
def test_logits_are_equal_before_and_after(trained, tmp_path, kind):
    run = folder_of(trained / kind)
    before = zeta_core.load(run)
    weights = load_file(run / "best" / "model.safetensors")
    assert all(torch.equal(weights[name], tensor) for name, tensor in before.state_dict().items())
    found = export(read_model(run), tmp_path / "deep" / "model")
    after = zeta_core.load(tmp_path / "deep" / "model")
    assert not before.training and not after.training
    size = before.embedding.num_embeddings
    assert torch.equal(logits(before, size), logits(after, size)) and before.max_len == after.max_len
    assert found.files == ["config.json", "model.safetensors"] + ["tokenizer/words.json"] * (kind == "words")
    again = export(read_model(tmp_path / "deep" / "model"), tmp_path / "again")
    assert again.files == found.files and again.size == found.size
    assert (tmp_path / "again" / "config.json").read_text() == (found.folder / "config.json").read_text()


def test_loading_leaves_the_random_numbers_alone(trained):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    zeta_core.load(folder_of(trained / "mqar"))
    assert torch.equal(torch.rand(1), expected)


def test_an_exported_model_says_what_it_is(trained, tmp_path):
    run = folder_of(trained / "words")
    export(read_model(run), tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["run"] == run.name and config["version"] and config["attention"]["chunk_size"] == 8
    assert config["task"]["kind"] == "language" and config["task"]["path"] is None and config["max_len"] == 16
    assert str(trained) not in json.dumps(config)
    words = read_model(tmp_path / "model").tokenizer()
    assert isinstance(words, WordTokenizer) and words.identity == config["tokenizer"]
    assert words.vocab_size == config["vocab_size"] and words.decode(words.encode("the cat")) == "the cat"


def test_runs_have_their_own_tokenizer(trained):
    assert isinstance(read_model(folder_of(trained / "bytes")).tokenizer(), ByteTokenizer)
    assert read_model(folder_of(trained / "mqar")).tokenizer() is None


def test_an_exported_model_needs_no_data(trained, tmp_path, monkeypatch):
    export(read_model(folder_of(trained / "words")), tmp_path / "model")
    monkeypatch.setenv("ZETA_DATA", str(tmp_path / "none"))
    assert read_model(tmp_path / "model").tokenizer() is not None


def test_nothing_is_overwritten(trained, tmp_path):
    saved = read_model(folder_of(trained / "mqar"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RequestError, match="full: is not empty, and nothing is overwritten"):
        export(saved, tmp_path / "full")
    with pytest.raises(RequestError, match="file: is a file"):
        export(saved, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert export(saved, tmp_path / "empty").folder.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full"]


def test_the_current_folder_is_refused(trained, tmp_path, monkeypatch):
    saved = read_model(folder_of(trained / "mqar"))
    monkeypatch.chdir(tmp_path)
    for folder in (Path(), tmp_path):
        with pytest.raises(RequestError, match="is the current folder; name a new one"):
            export(saved, folder)
    assert not any(tmp_path.iterdir())


def test_an_export_that_fails_leaves_nothing(trained, tmp_path, monkeypatch):
    saved = read_model(folder_of(trained / "mqar"))

    def full(source, target):
        raise OSError(28, "No space left on device", source, None, target)  # as os.sendfile has it

    monkeypatch.setattr("zeta_core.studies.export.shutil.copyfile", full)
    with pytest.raises(StorageError, match=r"\.model\.\d+/model\.safetensors: No space left on device"):
        export(saved, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_s_files_go_along(tmp_path):
    """The model says the same where the file that it was trained with is not."""
    file = tokenizer_file(tmp_path / "mine.json", "</s>", "<|endoftext|>")
    task = {"kind": "language", "tokenizer": "json", "tokenizer_path": str(file)}
    untrained(tmp_path / "run", task, {"positions": "none"}, vocab_size=258, max_len=256)
    before = read_model(tmp_path / "run").tokenizer()
    found = export(read_model(tmp_path / "run"), tmp_path / "model")
    file.unlink()
    assert found.files == ["config.json", "model.safetensors", "tokenizer/tokenizer.json"]
    after = read_model(tmp_path / "model").tokenizer()
    assert after.identity == before.identity and after.encode("naïve").tolist() == before.encode("naïve").tolist()
    again = export(read_model(tmp_path / "model"), tmp_path / "again")
    assert again.files == found.files and read_model(tmp_path / "again").tokenizer().identity == before.identity
    with pytest.raises((DataError, StorageError), match=r"mine\.json: .*no such file|mine\.json: No such file"):
        export(read_model(tmp_path / "run"), tmp_path / "none")


def tokenizer_file(path, *special):
    """A byte-level tokenizer.json with these special tokens."""
    package = pytest.importorskip("tokenizers")
    alphabet = sorted(package.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*alphabet, *special])}
    inner = package.Tokenizer(package.models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = package.decoders.ByteLevel()
    inner.save(str(path))
    return path


def untrained(run, task, model, **sizes):
    """A run's folder with random weights, and its network."""
    (run / "best").mkdir(parents=True)
    model = {"d_model": 16, "num_layers": 1, **model}
    config = {"task": task, "attention": {"kind": "zeta"}, "model": model}
    (run / "config.yaml").write_text(json.dumps(config))
    network = ModelConfig.model_validate(model).build(ZetaConfig(), **sizes).eval()
    save_file(network.state_dict(), run / "best" / "model.safetensors")
    return network


def test_classifiers_are_loaded_too(tmp_path):
    """Their sizes are read off the weights, whatever the head."""
    for pooling, documents, kind in (("mean", 1, "listops"), ("cls", 1, "listops"), ("mean", 2, "retrieval")):
        run = tmp_path / f"{pooling}-{documents}"
        sizes = {"vocab_size": 9, "max_len": 24, "num_classes": 3, "num_documents": documents}
        network = untrained(run, {"kind": kind}, {"form": "encoder", "pooling": pooling}, **sizes)
        config = read_model(run).config
        assert {name: getattr(config, name) for name in sizes} == sizes
        loaded = zeta_core.load(run)
        assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in network.state_dict().items())


def test_where_nothing_is(copy, tmp_path):
    with pytest.raises(RequestError, match=r"neither a run's folder \(config\.yaml\) nor an exported model's"):
        zeta_core.load(tmp_path)
    with pytest.raises(
        RequestError, match=r"RUN b-run: neither a run's folder nor the id of a run.*nearest there: a-run"
    ):
        find_model("b-run", tmp_path)
    assert find_model("a-run", tmp_path).config.run == find_model(str(copy), tmp_path).config.run == "a-run"


def test_a_field_that_this_version_does_not_have_is_named(copy, tmp_path):
    path = copy / "config.yaml"
    path.write_text(path.read_text().replace("  d_model: 16\n", "  d_model: 16\n  d_state: 7\n"))
    with pytest.raises(ConfigError, match=r"config\.yaml:\d+:3: model\.d_state: unknown field"):
        zeta_core.load(copy)


def test_an_exported_field_that_this_version_does_not_have_is_named(copy, tmp_path):
    export(read_model(copy), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(path.read_text().replace('"top_k": 4', '"top_k": "four"'))
    with pytest.raises(ConfigError, match=r"config\.json:\d+:\d+: attention\.top_k: must be a whole number"):
        zeta_core.load(tmp_path / "model")


def test_weights_that_do_not_fit_are_named(copy):
    path = copy / "best" / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "norm.weight": torch.ones(3)}, path)
    with pytest.raises(RequestError, match=r"norm\.weight is \[3\], and the configuration has \[16\]"):
        zeta_core.load(copy)
    save_file({name: tensor for name, tensor in weights.items() if name != "norm.weight"}, path)
    with pytest.raises(RequestError, match=r"norm\.weight is not there, and the configuration has \[16\]"):
        zeta_core.load(copy)
    save_file({"other": torch.ones(3)}, path)
    with pytest.raises(RequestError, match=r"there is no embedding\.weight; train it again"):
        zeta_core.load(copy)
    path.write_bytes(b"broken")
    with pytest.raises(StorageError, match="the weights cannot be read"):
        zeta_core.load(copy)
    path.unlink()
    with pytest.raises(RequestError, match="the run has no weights yet"):
        zeta_core.load(copy)


def test_a_tokenizer_of_another_vocabulary_is_refused(trained, tmp_path):
    export(read_model(folder_of(trained / "words")), tmp_path / "model")
    path = tmp_path / "model" / "tokenizer" / "words.json"
    words = json.loads(path.read_text())
    for other in (words[:-1], [*words[:-1], "other"]):
        path.write_text(json.dumps(other))
        with pytest.raises(DataError, match="the tokenizer there is now is not the model's"):
            read_model(tmp_path / "model").tokenizer()
    path.write_text("{")
    with pytest.raises(DataError, match="cannot be read as a list of words"):
        read_model(tmp_path / "model").tokenizer()
