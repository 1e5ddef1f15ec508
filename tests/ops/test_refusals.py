"""What the operator refuses: the message says what was given, the rule and a way out."""

import pytest
import torch
from ops.cases import make

from zeta_core.errors import DeviceError, NonFiniteError, OptionError, RequestError, ShapeError
from zeta_core.ops import zeta_attention, zeta_plan


def tensors(**changed: torch.Tensor) -> dict[str, torch.Tensor]:
    q, k, v = make(0, batch=2, heads=2, seq_len=6)
    return {"q": q, "k": k, "v": v, **changed}


def empty(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


BAD_TENSORS = {
    "q of three dimensions": ({"q": empty(2, 6, 3)}, r"q has shape \[2, 6, 3\]; expected \[batch, heads, seq_len"),
    "k of three dimensions": ({"k": empty(2, 6, 3)}, r"k has shape \[2, 6, 3\]"),
    "v of five dimensions": ({"v": empty(2, 2, 6, 3, 1)}, r"v has shape \[2, 2, 6, 3, 1\]"),
    "integers": ({"k": empty(2, 2, 6, 3, dtype=torch.int64)}, "k has dtype torch.int64; expected a floating-point"),
    "grouped heads": (
        {"k": empty(2, 1, 6, 3), "v": empty(2, 1, 6, 4)},
        "q, k and v have 2, 1 and 1 heads; grouped-query heads .* repeat_interleave",
    ),
    "fewer heads of v": ({"v": empty(2, 1, 6, 4)}, "2, 2 and 1 heads"),
    "other length": ({"k": empty(2, 2, 5, 3)}, "q has 6 tokens and k has 5; both must come from the same sequence"),
    "other d_K": ({"k": empty(2, 2, 6, 4)}, "they must be the same"),
    "other batch": ({"k": empty(1, 2, 6, 3)}, "they must be the same"),
    "v of another length": ({"v": empty(2, 2, 5, 4)}, r"v has shape \[2, 2, 5, 4\]; expected \[2, 2, 6, 'd_V'\]"),
    "no dimension": ({"q": empty(2, 2, 6, 0), "k": empty(2, 2, 6, 0)}, "d_K=0 is outside 1..128"),
    "129 dimensions": ({"q": empty(2, 2, 6, 129), "k": empty(2, 2, 6, 129)}, "d_K=129 is outside 1..128"),
    "gamma per token": ({"gamma": empty(6)}, r"gamma has shape \[6\]; expected a 0-d tensor or \[2\] \(heads\)"),
    "gamma of two dimensions": ({"gamma": empty(2, 1)}, r"gamma has shape \[2, 1\]"),
    "mask of floats": ({"key_padding_mask": empty(2, 6)}, "key_padding_mask has dtype torch.float64; expected bool"),
    "mask of another shape": (
        {"key_padding_mask": empty(6, 2, dtype=torch.bool)},
        r"key_padding_mask has shape \[6, 2\]; expected \[2, 6\]",
    ),
    "code coordinates of two shapes": (
        {"code_q": empty(2, 2, 6, 2), "code_k": empty(2, 2, 6, 3)},
        r"coordinates for codes differ in shape: \[2, 2, 6, 2\] and \[2, 2, 6, 3\]",
    ),
    "code coordinates of another length": (
        {"code_q": empty(2, 2, 3, 3), "code_k": empty(2, 2, 3, 3)},
        r"code_q.*\[2, 2, 3, 3\]",
    ),
    "code coordinates of other heads": (
        {"code_q": empty(1, 4, 6, 3), "code_k": empty(1, 4, 6, 3)},
        r"code_q.*\[1, 4, 6, 3\]",
    ),
}
BAD_OPTIONS = {
    "gamma 0": ({"gamma": 0.0}, "gamma=0.0 is outside 1e-18"),
    "gamma negative": ({"gamma": -1.0}, "gamma=-1.0 is outside"),
    "gamma NaN": ({"gamma": float("nan")}, "gamma=nan is outside"),
    "gamma infinite": ({"gamma": float("inf")}, "gamma=inf is outside"),
    "top_k 0": ({"top_k": 0}, "top_k=0 must be at least 1"),
    "top_k not divisible": ({"top_k": 32, "curves": 3}, "top_k=32 is not divisible by curves=3; .* is: 33"),
    "top_k below curves": ({"top_k": 2, "curves": 6}, "the nearest that is: 6"),
    "two curves": ({"curves": 2}, "curves=2 is not one of 1, 3, 6"),
    "curves in 4 dimensions": (
        {"curves": 3, "top_k": 3, "code_q": empty(2, 2, 6, 4), "code_k": empty(2, 2, 6, 4)},
        "curves=3 needs d_k=3, not d_k=4; use curves=1 or d_k=3",
    ),
    "refine 0": ({"refine": 0}, "refine=0 must be at least 1"),
    "num_chunks 0": ({"num_chunks": 0}, "num_chunks=0 must be at least 1"),
    "chunk_size 0": ({"chunk_size": 0}, "chunk_size=0 must be at least 1"),
    "local_window negative": ({"local_window": -1}, r"local_window=-1 must be at least 0 \(0: none\)"),
    "unknown score": ({"score": "softmax"}, "score='softmax' is not one of cauchy, negative_euclidean"),
    "unknown implementation": ({"impl": "cuda"}, "impl='cuda' is not one of auto, reference, triton"),
    "code_q alone": ({"code_q": empty(2, 2, 6, 3)}, "code_q and code_k go together: give both or neither"),
    "code_k alone": ({"code_k": empty(2, 2, 6, 3)}, "code_q and code_k go together"),
}


@pytest.mark.parametrize(("changed", "message"), BAD_TENSORS.values(), ids=BAD_TENSORS.keys())
def test_tensors_that_do_not_fit_are_refused(changed, message):
    with pytest.raises(ShapeError, match=message):
        zeta_attention(**{"gamma": 0.3, **tensors(), **changed})


@pytest.mark.parametrize(("changed", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_options_that_break_a_rule_are_refused(changed, message):
    with pytest.raises(OptionError, match=message):
        zeta_attention(**{"gamma": 0.3, **tensors(), **changed})


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused_by_name(name, bad):
    given = tensors()
    given[name][1, 0, 3, 2] = bad
    with pytest.raises(NonFiniteError, match=f"^{name} holds NaN or infinity"):
        zeta_attention(**given, gamma=0.3)


def test_errors_can_be_caught_as_value_errors():
    assert issubclass(RequestError, ValueError)
    assert all(issubclass(error, RequestError) for error in (ShapeError, OptionError, NonFiniteError, DeviceError))


def test_an_implementation_that_cannot_run_is_refused(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(DeviceError, match=r"impl='triton' cannot run here: .*; use impl='auto' or 'reference'"):
        zeta_attention(**tensors(), gamma=0.3, impl="triton")
    q, k, _ = make(0)
    with pytest.raises(DeviceError, match="impl='triton' cannot run here"):
        zeta_plan(q, k, impl="triton")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"top_k": 0}, OptionError, "top_k=0 must be at least 1"),
        ({"chunk_size": 0}, OptionError, "chunk_size=0"),
        ({"curves": 4}, OptionError, "curves=4"),
        ({"code_k": empty(1, 1, 5, 3)}, ShapeError, "coordinates for codes differ in shape"),
        ({"code_q": empty(6, 3), "code_k": empty(6, 3)}, ShapeError, r"coords has shape \[6, 3\]"),
    ],
)
def test_a_plan_refuses_what_the_operator_refuses(options, error, message):
    with pytest.raises(error, match=message):
        zeta_plan(**{"code_q": empty(1, 1, 6, 3), "code_k": empty(1, 1, 6, 3), **options})


@pytest.mark.parametrize("mask", [torch.zeros(2, 7, dtype=torch.bool), torch.zeros(2, 6)], ids=["length", "dtype"])
def test_a_plan_refuses_a_mask_that_does_not_fit(mask):
    given = tensors()
    with pytest.raises(ShapeError, match="key_padding_mask has"):
        zeta_plan(given["q"], given["k"], key_padding_mask=mask)
