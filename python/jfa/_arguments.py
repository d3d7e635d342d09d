"""The arguments of one call: flat as PyTorch operators want them, and as C++ structures."""

from typing import NamedTuple, TypeVar, get_type_hints

import torch
from torch import Tensor

from jfa import _core
from jfa.masks import PARAMETERS

_DTYPES = {
    torch.float32: _core.DType.float32,
    torch.float16: _core.DType.float16,
    torch.bfloat16: _core.DType.bfloat16,
    torch.float64: _core.DType.float64,
    torch.int32: _core.DType.int32,
    torch.int64: _core.DType.int64,
}


class Arguments(NamedTuple):
    """What forward, backward and plan have in common, in the order of the operators' schemas.

    The first seven are differentiable. A mask has up to five numbers (``jfa.masks.PARAMETERS``),
    each an int in ``mask_numbers`` or a tensor [batch] in ``mask_tensor_N``.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    bias_dense: Tensor | None
    alibi_slopes: Tensor | None
    position_table: Tensor | None
    time_table: Tensor | None
    q_offsets: Tensor | None
    kv_offsets: Tensor | None
    q_used: Tensor | None
    kv_used: Tensor | None
    kv_map: Tensor | None
    out_scales: Tensor | None
    q_timestamps: Tensor | None
    kv_timestamps: Tensor | None
    intervals: Tensor | None
    mask_tensor_0: Tensor | None
    mask_tensor_1: Tensor | None
    mask_tensor_2: Tensor | None
    mask_tensor_3: Tensor | None
    mask_tensor_4: Tensor | None
    plan: Tensor | None
    q_layout: str
    kv_layout: str
    batch: int
    activation: str
    leaky_slope: float
    scale: float | None
    out_scale_kind: str
    out_scale: float
    mask: str
    alignment: str
    hstu_causal: bool
    mask_numbers: list[int]
    time_scale: float
    reference: bool
    threads: int
    strict_isolation: bool


DIFFERENTIABLE = Arguments._fields[:7]
_TENSOR_COUNT = Arguments._fields.index("plan") + 1
_SCHEMA_TYPES = {
    Tensor: "Tensor",
    Tensor | None: "Tensor?",
    str: "str",
    int: "SymInt",
    list[int]: "SymInt[]",
    float: "float",
    float | None: "float?",
    bool: "bool",
}
SCHEMA = ", ".join(
    f"{_SCHEMA_TYPES[hint]} {name}" for name, hint in get_type_hints(Arguments).items()
)


def tensors_of(arguments: Arguments) -> dict[str, Tensor]:
    """The tensors that are present, by name."""
    pairs = zip(Arguments._fields[:_TENSOR_COUNT], arguments[:_TENSOR_COUNT], strict=True)
    return {name: value for name, value in pairs if isinstance(value, Tensor)}


def view(name: str, tensor: Tensor | None) -> _core.Tensor:
    """``tensor`` for C++, an address with type, shape and strides; absent for None."""
    if tensor is None:
        return _core.Tensor()
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        allowed = ", ".join(str(known) for known in _DTYPES)
        raise _core.InvalidType(
            f"{name}: type {tensor.dtype} is not supported, only {allowed}; cast it"
        )
    if not 1 <= tensor.dim() <= 4:
        raise _core.InvalidArgument(
            f"{name}: shape {list(tensor.shape)} has rank {tensor.dim()}; allowed are 1 to 4"
        )
    return _core.Tensor(tensor.data_ptr(), dtype, list(tensor.shape), list(tensor.stride()))


_CoreArguments = TypeVar("_CoreArguments", bound=_core.AttentionArgs)


def fill(target: _CoreArguments, source: Arguments) -> _CoreArguments:
    """Writes ``source`` into the C++ structure ``target``, which does not keep it alive."""
    target.q = view("q", source.q)
    target.k = view("k", source.k)
    target.v = view("v", source.v)
    target.q_sequences.layout = _core.Layout[source.q_layout]
    target.q_sequences.offsets = view("q_offsets", source.q_offsets)
    target.q_sequences.used_lengths = view("q_used", source.q_used)
    target.kv_sequences.layout = _core.Layout[source.kv_layout]
    target.kv_sequences.offsets = view("kv_offsets", source.kv_offsets)
    target.kv_sequences.used_lengths = view("kv_used", source.kv_used)
    target.kv_map = view("kv_map", source.kv_map)
    target.batch = source.batch
    target.activation = _core.Activation[source.activation]
    target.leaky_slope = source.leaky_slope
    target.scale = source.scale
    target.out_scale_kind = _core.OutScale[source.out_scale_kind]
    target.out_scale = source.out_scale
    target.out_scales = view("out_scale", source.out_scales)
    _fill_mask(target.mask, source)
    _fill_bias(target.bias, source)
    return target


def _fill_mask(mask: _core.Mask, source: Arguments) -> None:
    mask.kind = _core.MaskKind[source.mask]
    mask.alignment = _core.Alignment[source.alignment]
    mask.hstu_causal = source.hstu_causal
    mask.intervals = view("mask.intervals", source.intervals)
    tensors = (
        source.mask_tensor_0,
        source.mask_tensor_1,
        source.mask_tensor_2,
        source.mask_tensor_3,
        source.mask_tensor_4,
    )
    for name, number, tensor in zip(
        PARAMETERS[source.mask], source.mask_numbers, tensors, strict=False
    ):
        parameter: _core.SequenceParameter = getattr(mask, name)
        parameter.value = number
        parameter.per_sequence = view(f"mask.{name}", tensor)


def _fill_bias(bias: _core.Bias, source: Arguments) -> None:
    bias.dense = view("bias.dense", source.bias_dense)
    bias.alibi_slopes = view("bias.alibi_slopes", source.alibi_slopes)
    bias.position_table = view("bias.position_table", source.position_table)
    bias.time_table = view("bias.time_table", source.time_table)
    bias.q_timestamps = view("bias.q_timestamps", source.q_timestamps)
    bias.kv_timestamps = view("bias.kv_timestamps", source.kv_timestamps)
    bias.time_scale = source.time_scale
