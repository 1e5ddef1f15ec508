"""ZETA's module: gamma, coordinates in full precision, and who sees whom."""

from typing import get_args

import pytest
import torch
from attention.variants import D_MODEL, HEADS, SEQ_LEN, build, hidden_states, zeta
from pydantic import ValidationError

from zeta_core.attention import ExactTopkConfig, SoftmaxConfig, ZetaConfig
from zeta_core.attention import zeta as zeta_module
from zeta_core.attention.zeta import LARGEST_GAMMA, SMALLEST_GAMMA
from zeta_core.ops.attend import Score
from zeta_core.ops.zorder import grid_cells

SEEING = {
    "chunks": zeta(),
    "chunk_size": ZetaConfig(chunk_size=7, top_k=6),
    "local window": zeta(local_window=3),
    "exact": zeta(selection="exact", local_window=2),
    "exact, token": zeta(selection="exact", visibility="token"),
    "all": zeta(selection="all"),
    "all, token": zeta(selection="all", visibility="token"),
    "exact_topk": ExactTopkConfig(top_k=6, num_chunks=5),
    "softmax": SoftmaxConfig(),
}
every_seeing = pytest.mark.parametrize("config", SEEING.values(), ids=SEEING.keys())


def without_history(config, **more):
    if isinstance(config, SoftmaxConfig):
        return config
    return type(config).model_validate({**config.model_dump(), "history_mean": False, **more})


@every_seeing
def test_a_query_does_not_depend_on_what_it_cannot_see(config):
    mixer, hidden = build(without_history(config)), hidden_states(batch=1)
    before, keys = mixer(hidden), torch.arange(SEQ_LEN)
    for query in range(SEQ_LEN):
        unseen = ~config.sees(torch.tensor(query), keys, SEQ_LEN) & (keys != query)
        other = hidden.clone()
        other[:, unseen] = -9 * hidden_states(batch=1, seed=4)[:, unseen]
        assert torch.equal(mixer(other)[:, query], before[:, query]), query


@every_seeing
def test_a_query_depends_on_everything_it_sees(config):
    """With room for every key."""
    more = {} if isinstance(config, SoftmaxConfig) else {"top_k": SEQ_LEN}
    mixer, hidden = build(without_history(config, **more)), hidden_states(batch=1)
    before, queries = mixer(hidden), torch.arange(SEQ_LEN)
    for key in range(SEQ_LEN):
        other = hidden.clone()
        other[:, key] = -3 * hidden_states(batch=1, seed=4)[:, key]
        changed = (mixer(other) != before).any(-1)[0]
        seen = config.sees(queries, torch.tensor(key), SEQ_LEN)
        assert torch.equal(changed | (queries == key), seen | (queries == key)), key


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("visibility", ["chunk", "token"])
def test_exact_topk_is_zeta_with_an_exact_selection(seed, visibility):
    options = {"top_k": 5, "num_chunks": 5, "visibility": visibility, "local_window": seed}
    exact = ExactTopkConfig.model_validate(options)
    assert exact.as_zeta() == ZetaConfig.model_validate({**options, "selection": "exact"})
    other = build(ZetaConfig.model_validate({**options, "selection": "exact"}), seed=seed)
    assert torch.equal(build(exact, seed=seed)(hidden_states()), other(hidden_states()))


@pytest.mark.parametrize("visibility", ["chunk", "token"])
def test_an_exact_selection_takes_the_nearest_keys(visibility):
    config = ExactTopkConfig.model_validate({"top_k": 5, "num_chunks": 5, "visibility": visibility})
    mixer, hidden = build(config), hidden_states()
    q, k = (t.detach().double() for t in mixer.coordinates(hidden)[:2])
    selected, keys = mixer.selected(hidden), torch.arange(SEQ_LEN)
    for row in range(2):
        for head in range(HEADS):
            for query in range(SEQ_LEN):
                far = (k[row, head] - q[row, head, query]).square().sum(-1)
                far[~config.sees(torch.tensor(query), keys, SEQ_LEN)] = torch.inf
                nearest = sorted((float(d), i) for i, d in enumerate(far) if d < torch.inf)[:5]
                found = selected[row, head, query]
                assert sorted(found[found >= 0].tolist()) == sorted(i for _, i in nearest)


@pytest.mark.parametrize("coordinates", ["sigmoid", "sigmoid_code_only", "layernorm"])
@pytest.mark.parametrize("selection", ["zorder", "exact", "all"])
def test_coordinates_stay_in_full_precision_under_autocast(coordinates, selection, monkeypatch):
    mixer = build(zeta(coordinates=coordinates, selection=selection))
    hidden, raw, given = hidden_states(700), [], []
    for projection in (mixer.q, mixer.k):
        projection.register_forward_hook(lambda module, args, out: raw.append(out))
    name = {"zorder": "zeta_attention", "exact": "attend", "all": "dense_attend"}[selection]
    whole = getattr(zeta_module, name)

    def watched(q, k, *args, **options):
        given.extend([q, k])
        return whole(q, k, *args, **options)

    monkeypatch.setattr(zeta_module, name, watched)
    with torch.autocast("cpu", torch.bfloat16):
        out = mixer(hidden)
        mixer(hidden.bfloat16())
    assert out.dtype == torch.bfloat16
    assert all(tensor.dtype == torch.float32 for tensor in (*raw, *given))
    with torch.no_grad():
        assert torch.equal(mixer.q(hidden), raw[0])
    for tensor in raw[:2]:
        cells = grid_cells(tensor.sigmoid()).unique().numel()
        assert cells > 2 * grid_cells(tensor.sigmoid().bfloat16()).unique().numel()


def test_gamma_starts_small_and_is_clamped():
    mixer = build(zeta())
    torch.testing.assert_close(mixer.gamma(), torch.full((HEADS,), 0.047426))
    with torch.no_grad():
        mixer.gamma_logit.fill_(-50)
    assert mixer.gamma().tolist() == pytest.approx([SMALLEST_GAMMA] * HEADS)
    out = mixer(hidden_states())
    out.square().sum().backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(p.grad).all() for p in mixer.parameters())


@pytest.mark.parametrize("selection", ["zorder", "exact", "all"])
def test_gamma_per_head_is_the_heads_own(selection):
    mixer = build(zeta(gamma_per="head", selection=selection))
    assert mixer.gamma_logit.shape == (HEADS,)
    with torch.no_grad():
        mixer.out.weight.copy_(torch.eye(D_MODEL))
        before = mixer(hidden_states())
        mixer.gamma_logit[1] = 2.0
        after = mixer(hidden_states())
    half = D_MODEL // 2
    assert torch.equal(after[..., :half], before[..., :half])
    assert not torch.equal(after[..., half:], before[..., half:])
    assert build(zeta()).gamma_logit.shape == (1,)


@pytest.mark.parametrize("selection", ["zorder", "exact", "all"])
def test_a_fixed_gamma_is_no_parameter(selection):
    fixed, trained = build(zeta(gamma=0.25, selection=selection)), build(zeta(selection=selection))
    assert "gamma_logit" not in dict(fixed.named_parameters())
    assert fixed.gamma().tolist() == [0.25] * HEADS
    with torch.no_grad():
        trained.gamma_logit.fill_(torch.tensor(0.25).logit())
    trained.load_state_dict(fixed.state_dict(), strict=False)
    torch.testing.assert_close(fixed(hidden_states()), trained(hidden_states()))


@pytest.mark.parametrize("selection", ["zorder", "exact", "all"])
@pytest.mark.parametrize("score", get_args(Score))
@pytest.mark.parametrize("gamma", [SMALLEST_GAMMA, LARGEST_GAMMA])
def test_gammas_at_their_bounds_give_finite_results(selection, score, gamma):
    mixer = build(zeta(gamma=gamma, selection=selection, score=score))
    out = mixer(hidden_states())
    out.square().sum().backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(p.grad).all() for p in mixer.parameters())


def test_random_projections_are_not_trained():
    mixer = build(zeta(projection="random_fixed"))
    trained = {name.split(".")[0] for name, p in mixer.named_parameters() if p.requires_grad}
    assert trained == {"v", "out", "gamma_logit"}


REFUSED = [
    ({"num_chunks": 4, "chunk_size": 8}, "num_chunks=4 and chunk_size=8 are both set; give one"),
    ({"num_chunks": None}, "neither num_chunks nor chunk_size is set; give one"),
    ({"coordinates": "layernorm", "d_k": 2}, "coordinates='layernorm' needs d_k of at least 3, not d_k=2"),
    ({"curves": 3, "top_k": 32}, "top_k=32 is not divisible by curves=3; the nearest that is: 33"),
    ({"curves": 3, "top_k": 6, "d_k": 2}, "curves=3"),
    ({"curves": 2}, "1, 3 or 6"),
    ({"visibility": "token"}, "visibility='token' needs selection='exact' or 'all'"),
    ({"selection": "exact", "curves": 3, "top_k": 6}, "selection='exact' uses no curve; curves=3 and refine=1"),
    ({"selection": "all", "refine": 2}, "selection='all' uses no curve; curves=1 and refine=2 must be 1"),
    ({"d_k": 0}, "greater than or equal to 1"),
    ({"d_k": 129}, "less than or equal to 128"),
    ({"top_k": 0}, "greater than 0"),
    ({"num_chunks": 0}, "greater than 0"),
    ({"gamma": 0.0}, "greater than or equal to 0.0001"),
    ({"gamma": 1e-30}, "greater than or equal to 0.0001"),
    ({"gamma": 2e4}, "less than or equal to 10000"),
    ({"gamma": float("inf")}, "finite"),
    ({"gamma": "learned"}, "'trained'"),
    ({"local_window": -1}, "greater than or equal to 0"),
    ({"score": "softmax"}, "'cauchy'"),
    ({"coordinates": "raw"}, "'sigmoid'"),
    ({"top_n": 4}, "top_n"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[str(options) for options, _ in REFUSED])
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ValidationError) as refused:
        ZetaConfig.model_validate(options)
    assert words in str(refused.value)


def test_a_chunk_size_alone_replaces_the_default_of_chunks():
    config = ZetaConfig(chunk_size=16)
    assert (config.num_chunks, config.chunk_size, config.chunk_length(100)) == (None, 16, 16)
    assert "num_chunks" not in config.model_dump()
    assert ZetaConfig.model_validate(config.model_dump()) == config
    assert ZetaConfig(num_chunks=8).chunk_length(100) == 13
