"""Two documents by one encoder: what padding, and the documents' order, may change."""

import pytest
import torch
from model.test_network import MIXERS, SEQ_LEN, VOCABULARY, every_encoding_mixer, every_form, tokens

from zeta_core.errors import OptionError, ShapeError
from zeta_core.model import ModelConfig
from zeta_core.model.heads import PairHead, pair_features
from zeta_core.tasks import Batch
from zeta_core.training.evaluate import loss_and_hits

every_pooling = pytest.mark.parametrize("pooling", ["mean", "cls"])


def pair_model(mixer=MIXERS["softmax"], *, max_len=SEQ_LEN, **options):
    torch.manual_seed(0)
    config = ModelConfig(**{"d_model": 16, "num_layers": 2, "num_heads": 2, "form": "encoder", **options})
    return config.build(mixer, vocab_size=VOCABULARY, max_len=max_len, num_classes=2, num_documents=2).eval()


def documents(lengths, seq_len, seed):
    """Documents of these lengths, padded with token 0 to seq_len, and their mask."""
    mask = torch.arange(seq_len) >= torch.tensor(lengths)[:, None]
    return tokens(SEQ_LEN, len(lengths), seed)[:, :seq_len].masked_fill(mask, 0), mask


@every_form
@every_pooling
def test_the_output_is_independent_of_padding(mixer, causal, pooling):
    if hasattr(mixer, "num_chunks"):
        # Chunks by number move with the length, padding included; those of a fixed size stay.
        mixer = type(mixer).model_validate({**mixer.model_dump(exclude={"num_chunks"}), "chunk_size": 6})
    model = pair_model(mixer, pooling=pooling, causal=causal)
    found = []
    for seq_len in (15, SEQ_LEN):
        (first, mask), (second, other) = documents((15, 9), seq_len, 1), documents((4, 15), seq_len, 2)
        found.append(model(first, None, mask, second, other))
    assert found[0].shape == (2, 2)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    # One pair alone, cut to its own lengths as far as one shape for both allows.
    first, second = tokens(15, 1, 1)[:, :15], documents((4,), 15, 2)
    alone = model(documents((15,), 15, 1)[0], None, None, *second)
    assert first.shape == (*alone.shape[:1], 15)
    torch.testing.assert_close(alone, found[0][:1], rtol=1e-4, atol=1e-5)


@every_form
@every_pooling
def test_padded_tokens_do_not_reach_the_classes(mixer, causal, pooling):
    model = pair_model(mixer, pooling=pooling, causal=causal)
    (first, mask), (second, other) = documents((15, 9, 0), SEQ_LEN, 1), documents((4, 24, 3), SEQ_LEN, 2)
    out = model(first, None, mask, second, other)
    changed = model(first.masked_fill(mask, 7), None, mask, second.masked_fill(other, 5), other)
    assert torch.equal(out[:2], changed[:2])
    assert torch.isfinite(out).all()


@every_form
@every_pooling
def test_gradients_are_finite_and_reach_everything(mixer, causal, pooling):
    model = pair_model(mixer, pooling=pooling, causal=causal).train()
    (first, mask), (second, other) = documents((24, 1), SEQ_LEN, 1), documents((4, 24), SEQ_LEN, 2)
    batch = Batch(first, torch.tensor([0, 1]), mask, second, other)
    loss, hits, count = loss_and_hits(model, batch)
    loss.backward()
    assert count == 2 and 0 <= hits <= 2
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    head = [p for p in model.classifier.parameters() if p.dim() > 1]
    assert all(p.grad.abs().sum() > 0 for p in [*head, model.embedding.weight])


@every_encoding_mixer
def test_swapped_documents_swap_their_encodings_alone(mixer):
    model = pair_model(mixer)
    (first, mask), (second, other) = documents((15, 9), SEQ_LEN, 1), documents((4, 15), SEQ_LEN, 2)
    seen = []
    model.classifier.mlp.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    straight, swapped = model(first, None, mask, second, other), model(second, None, other, first, mask)
    assert not torch.allclose(straight, swapped, atol=1e-5)
    (e1, e2, product, difference), (f1, f2, same, negated) = (x.chunk(4, dim=-1) for x in seen)
    torch.testing.assert_close((e1, e2, product, difference), (f2, f1, same, -negated), rtol=1e-4, atol=1e-5)
    # Each encoding is of its own document: that of a single one.
    torch.testing.assert_close(e1, model.pooled(model.hidden(first, mask), mask), rtol=1e-4, atol=1e-5)


def test_the_features_are_the_four_of_the_definition():
    e1, e2 = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 5.0]])
    assert pair_features(e1, e2).tolist() == [[1, 2, 3, 5, 3, 10, -2, -3]]
    head = PairHead(2, 3, d_mlp=7)
    assert head(e1, e2).shape == (1, 3) and head.mlp[0].weight.shape == (7, 8)


def test_one_document_too_few_or_too_many_is_refused():
    given, model = tokens(), pair_model()
    single = ModelConfig(d_model=16).build(MIXERS["softmax"], vocab_size=VOCABULARY, max_len=24, num_classes=2)
    with pytest.raises(ShapeError, match=r"two documents an example, of one shape; these are \[2, 24\] and None"):
        model(given)
    with pytest.raises(ShapeError, match=r"of one shape; these are \[2, 24\] and \[2, 20\]"):
        model(given, None, None, given[:, :20])
    with pytest.raises(ShapeError, match=r"one document an example"):
        single(given, None, None, given)


def test_two_documents_leave_a_single_one_s_network_alone():
    torch.manual_seed(0)
    one = ModelConfig(d_model=16).build(MIXERS["softmax"], vocab_size=VOCABULARY, max_len=24, num_classes=2)
    two = pair_model(form="decoder")
    shared = [name for name in one.state_dict() if not name.startswith("classifier")]
    assert shared == [name for name in two.state_dict() if not name.startswith("classifier")]
    assert torch.equal(one.blocks[0].mixer.qkv.weight, two.blocks[0].mixer.qkv.weight)


def word_model(**options):
    torch.manual_seed(0)
    config = ModelConfig(d_model=16, num_layers=1, head="adaptive", cutoffs=(5, 12, 900), **options)
    return config.build(MIXERS["softmax"], vocab_size=VOCABULARY, max_len=SEQ_LEN)


def test_an_adaptive_softmax_is_a_distribution_over_all_words():
    model, given = word_model().eval(), documents((SEQ_LEN, SEQ_LEN), SEQ_LEN, 1)[0]
    whole = model(given)
    assert whole.shape == (2 * SEQ_LEN, VOCABULARY)
    torch.testing.assert_close(whole.exp().sum(-1), torch.ones(2 * SEQ_LEN))
    places, targets = torch.tensor([3, 7, SEQ_LEN + 1]), torch.tensor([1, 6, 19])
    scores = model(given, places, targets=targets)
    torch.testing.assert_close(scores[:, 0], whole[places, targets])
    likeliest = whole[places].argmax(-1)
    assert model(given, places, targets=likeliest)[:, 1].tolist() == [1, 1, 1]
    assert model(given, places, targets=(likeliest + 1) % VOCABULARY)[:, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: Wrapped(_orig_mod=Wrapped(module=model))])
def test_its_loss_is_the_cross_entropy(wrap):
    model, given = word_model(), documents((SEQ_LEN, SEQ_LEN), SEQ_LEN, 1)[0]
    labels = torch.where(given % 3 == 0, given, -100)
    labels[:, :4] = model(given).argmax(-1).view(given.shape)[:, :4]  # some are guessed right
    wrapped = wrap(model)
    for trained in (model.train(), model.eval()):
        loss, hits, count = loss_and_hits(wrapped, Batch(given, labels))
        whole = model(given)
        expected = torch.nn.functional.nll_loss(whole, labels.flatten(), ignore_index=-100, reduction="sum")
        torch.testing.assert_close(loss, expected)
        right = (whole.argmax(-1) == labels.flatten()).sum()
        assert count == int((labels != -100).sum()) and right >= 8
        assert int(hits) == (0 if trained.training else int(right))
    loss.backward()
    assert all(p.grad is not None for p in model.adaptive.parameters())


class Wrapped(torch.nn.Module):
    """What DDP and the compiler put around a model."""

    def __init__(self, **inner):
        super().__init__()
        for name, model in inner.items():
            setattr(self, name, model)

    def forward(self, *args, **options):
        (inner,) = self.children()
        return inner(*args, **options)


def test_where_adaptive_softmax_makes_no_sense():
    with pytest.raises(OptionError, match=r"of 20 tokens reaches none of cutoffs=\[20000, 60000\]"):
        ModelConfig(head="adaptive").build(MIXERS["softmax"], vocab_size=VOCABULARY, max_len=SEQ_LEN)
    with pytest.raises(OptionError, match="this task has classes"):
        ModelConfig(head="adaptive").build(MIXERS["softmax"], vocab_size=VOCABULARY, max_len=8, num_classes=2)
