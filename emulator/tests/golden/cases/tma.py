"""Tensor-map copies (loads, stores, reductions), bulk copies and bulk reductions within one CTA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .alu import ulp
from .case import WIDTH, Argument, Buffer, Case, Compare, Input, TensorMap, Word, entry, identifier

TENSOR_BYTES = 65536
SHARED_BYTES = 8192
MASK64 = (1 << 64) - 1

# CUtensorMapDataType numbers and the kind of data that fills the tensor.
TYPES = {
    "u8": 0,
    "u16": 1,
    "u32": 2,
    "s32": 3,
    "u64": 4,
    "s64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "bf16": 9,
    "f32_ftz": 10,
    "tf32": 11,
    "tf32_ftz": 12,
}
DATA_KIND = {"f32_ftz": "f32", "tf32": "f32", "tf32_ftz": "f32"}


def element_bytes(kind: str) -> int:
    return WIDTH[DATA_KIND.get(kind, kind)]


def tensor_input(kind: str) -> Input:
    data = DATA_KIND.get(kind, kind)
    return Input(f"random:{data}", TENSOR_BYTES // WIDTH[data], "tensor")


PROLOGUE = f"""
.shared .align 1024 .b8 buffer[{SHARED_BYTES}]; .shared .align 8 .b64 barrier;
.reg .b64 %in, %out, %g, %map, %w; .reg .b32 %t, %x, %y, %s, %i, %bar, %spins, %status, %bytes;
.reg .pred %p, %q, %done;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, buffer;
mov.u32 %bar, barrier;
setp.eq.u32 %q, %t, 0; @%q mbarrier.init.shared::cta.b64 [%bar], 1;
fence.mbarrier_init.release.cluster;
"""


def fill_shared(source: str) -> str:
    """Fills the shared buffer with poison or input bytes, visible to the async proxy."""
    value = (
        "mov.u32 %x, 0xCDCDCDCD;"
        if source == "poison"
        else "mad.wide.u32 %g, %i, 4, %in; ld.global.b32 %x, [%g];"
    )
    return f"""mov.u32 %i, %t;
FILL: {value} shl.b32 %y, %i, 2; add.u32 %y, %y, %s; st.shared.b32 [%y], %x;
add.u32 %i, %i, 128; setp.lt.u32 %p, %i, {SHARED_BYTES // 4}; @%p bra FILL;
fence.proxy.async.shared::cta; bar.sync 0;
"""


# Waits for phase 0 a bounded number of times: a wrong byte count is an answer and not a hang.
WAIT = """mov.u32 %spins, 0; mov.u32 %status, 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0; @%done mov.u32 %status, 1;
@%done bra WAITED;
add.u32 %spins, %spins, 1; setp.lt.u32 %p, %spins, 2000; @%p bra WAIT;
WAITED: bar.sync 0;
"""
DUMP = f"""mov.u32 %i, %t;
DUMP: shl.b32 %y, %i, 2; add.u32 %y, %y, %s; ld.shared.b32 %x, [%y]; mad.wide.u32 %g, %i, 4, %out;
st.global.b32 [%g], %x;
add.u32 %i, %i, 128; setp.lt.u32 %p, %i, {SHARED_BYTES // 4}; @%p bra DUMP;
@%q st.global.b32 [%out+{SHARED_BYTES}], %status;
"""
COMMIT = "@%q cp.async.bulk.commit_group; @%q cp.async.bulk.wait_group 0; bar.sync 0;"


def _coordinates(rank: int) -> tuple[list[str], str, str]:
    parameters = [f".u32 c{d}" for d in range(rank)]
    load = "".join(f".reg .b32 %c{d}; ld.param.u32 %c{d}, [c{d}];" for d in range(rank))
    return parameters, load, "{" + ", ".join(f"%c{d}" for d in range(rank)) + "}"


CACHE_HINT = ".L2::cache_hint"
POLICY = "createpolicy.fractional.L2::evict_first.b64 %w, 1.0;"
MAP_PARAMETER = ".align 64 .b8 map[128]"
MAP_ADDRESS = "mov.b64 %map, map; cvta.param.u64 %map, %map;"


def load_case(
    label: str,
    tensor: TensorMap,
    kind: str,
    at: Sequence[int],
    bytes_: int,
    form: str = "",
    offset: int = 0,
    destination: str = "shared::cluster",
    prefetch: bool = False,
    hint: bool = False,
) -> Case:
    rank = len(at)
    parameters, load, coordinates = _coordinates(rank)
    opcode = f"cp.async.bulk.tensor.{rank}d.{destination}.global{form}.mbarrier::complete_tx::bytes"
    opcode += CACHE_HINT if hint else ""
    kernel = "k_" + identifier(opcode) + ("_prefetch" if prefetch else "")
    early = (
        f"prefetch.tensormap [%map]; cp.async.bulk.prefetch.tensor.{rank}d.L2.global [%map, "
        f"{coordinates}];"
        if prefetch
        else ""
    )
    body = f"""{PROLOGUE} {load} .reg .b32 %off; ld.param.u32 %bytes, [bytes];
ld.param.u32 %off, [offset]; {MAP_ADDRESS}
{fill_shared("poison")}
add.u32 %y, %s, %off; {early} {POLICY}
@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
@%q {opcode} [%y], [%map, {coordinates}], [%bar]{", %w" if hint else ""};
{WAIT} {DUMP}"""
    ptx = entry(
        kernel,
        [".u64 in", ".u64 out", MAP_PARAMETER, *parameters, ".u32 bytes", ".u32 offset"],
        body,
    )
    arguments: list[Argument] = [
        Buffer(TENSOR_BYTES, tensor_input(kind)),
        Buffer(SHARED_BYTES + 4, output=True),
        tensor,
        *(Word(c & 0xFFFFFFFF, 32) for c in at),
        Word(bytes_, 32),
        Word(offset, 32),
    ]
    # Where the hardware's choice is of interest (fill patterns, narrow rows), every byte is kept.
    full = any(
        word in label
        for word in ("NaN", "ftz", "tf32", "stride", "rows of", "ragged", "byte count")
    )
    return Case(
        f"tensor load {rank}d/{label}",
        kernel,
        ptx,
        arguments,
        compare=Compare("exact" if full else "digest"),
    )


def store_case(
    label: str,
    tensor: TensorMap,
    kind: str,
    at: Sequence[int],
    reduce: str = "",
    spelling: str = ".tile.bulk_group",
) -> Case:
    rank = len(tensor.size)
    parameters, load, coordinates = _coordinates(rank)
    prefix = "cp.reduce.async.bulk.tensor" if reduce else "cp.async.bulk.tensor"
    opcode = f"{prefix}.{rank}d.global.shared::cta{reduce}{spelling}"
    kernel = "k_" + identifier(opcode)
    policy = ", %w" if CACHE_HINT in spelling else ""
    body = f"""{PROLOGUE} {load} {MAP_ADDRESS} {POLICY}
{fill_shared("input")}
@%q {opcode} [%map, {coordinates}], [%s]{policy};
{COMMIT}"""
    data = DATA_KIND.get(kind, kind)
    # Sums of ordinary numbers, so that results have no NaN whose payload would be arbitrary.
    form = "real" if reduce and data in ("f16", "bf16", "f32", "f64") else "random"
    ptx = entry(kernel, [".u64 in", ".u64 out", MAP_PARAMETER, *parameters], body)
    arguments: list[Argument] = [
        Buffer(SHARED_BYTES, Input(f"{form}:{data}", SHARED_BYTES // WIDTH[data], "store")),
        Buffer(
            TENSOR_BYTES // 4,
            Input(f"{form}:{data}", TENSOR_BYTES // 4 // WIDTH[data], "stored"),
            output=True,
        ),
        tensor,
        *(Word(c & 0xFFFFFFFF, 32) for c in at),
    ]
    name = f"tensor {'reduce' + reduce if reduce else 'store'} {rank}d/{label}"
    return Case(name, kernel, ptx, arguments, compare=Compare("digest"))


def dense_map(
    kind: str,
    size: tuple[int, ...],
    box: tuple[int, ...],
    pad: int = 0,
    buffer: int = 0,
    **more: object,
) -> TensorMap:
    """A packed tensor whose rows are padded to multiples of 16 bytes (plus `pad`)."""
    pitch = -(-size[0] * element_bytes(kind) // 16) * 16 + pad
    strides = []
    for extent in size[1:]:
        strides.append(pitch)
        pitch *= extent
    tensor = TensorMap(buffer, TYPES[kind], size, tuple(strides), box)
    return replace(tensor, **more)  # type: ignore[arg-type]


def box_bytes(tensor: TensorMap, kind: str) -> int:
    total = element_bytes(kind)
    for d, extent in enumerate(tensor.box):
        stride = tensor.element_strides()[d] if d else 1
        total *= -(-extent // stride)
    return total


SIZES = {1: (1000,), 2: (60, 70), 3: (60, 10, 9), 4: (60, 5, 7, 3), 5: (60, 4, 3, 3, 3)}
BOXES = {1: (64,), 2: (32, 16), 3: (32, 4, 4), 4: (32, 3, 2, 2), 5: (32, 2, 2, 2, 2)}
# The hardware faults unless the first coordinate is a multiple of 16 bytes, and on negative
# coordinates of stores (see fault_cases).
PLACES = {
    1: ((0,), (16,), (-8,), (984,), (1000,), (-64,)),
    2: ((0, 0), (8, 9), (-8, -2), (48, 60), (56, 0), (64, 0), (0, 70), (-40, 5)),
    3: ((0, 0, 0), (8, 3, 2), (-8, -1, -1), (48, 8, 7), (0, 0, -4)),
    4: ((0, 0, 0, 0), (8, 1, 2, 0), (-8, -1, -1, -1), (40, 4, 6, 2)),
    5: ((0, 0, 0, 0, 0), (8, 1, 1, 1, 1), (-8, -1, -1, -1, -1), (40, 3, 2, 2, 2)),
}


def aligned(x: int, kind: str) -> int:
    """The nearest coordinate at or below `x` that starts a 16-byte unit."""
    width = element_bytes(kind)
    return x * width // 16 * 16 // width


def load_cases() -> Iterator[Case]:
    for rank, places in PLACES.items():
        for swizzle in range(4):
            # The inner box must fit the swizzle width: bf16 rows of 32, 64 or 128 bytes.
            inner = {0: 32, 1: 16, 2: 32, 3: 64}[swizzle]
            box = (inner, *BOXES[rank][1:])
            tensor = dense_map("bf16", SIZES[rank], box, swizzle=swizzle)
            for place in places:
                yield load_case(
                    f"swizzle {swizzle} at {place}",
                    tensor,
                    "bf16",
                    place,
                    box_bytes(tensor, "bf16"),
                )
    for kind in TYPES:
        width = element_bytes(kind)
        tensor = dense_map(kind, (50, 20), (32 // width * 2 if width > 1 else 48, 8))
        yield load_case(
            f"type {kind}", tensor, kind, (aligned(19, kind), 4), box_bytes(tensor, kind)
        )
        yield load_case(
            f"type {kind} at the edge",
            tensor,
            kind,
            (aligned(45, kind), 14),
            box_bytes(tensor, kind),
        )
        for swizzle in (1, 3):
            swizzled = dense_map(kind, (50, 20), (32 // width, 8), swizzle=swizzle)
            yield load_case(
                f"type {kind} swizzle {swizzle}",
                swizzled,
                kind,
                (aligned(-2, kind), 15),
                box_bytes(swizzled, kind),
            )
        if kind[0] in "fbt":
            filled = dense_map(kind, (50, 20), (32 // width, 8), fill=1)
            yield load_case(
                f"type {kind} NaN fill",
                filled,
                kind,
                (aligned(-2, kind), 15),
                box_bytes(filled, kind),
            )
    yield from _special_loads()


def _special_loads() -> Iterator[Case]:
    for strides in ((1, 2), (1, 3), (1, 8)):
        tensor = dense_map("f16", (60, 70), (16, 16), element_stride=strides)
        for place in ((0, 0), (8, 5), (-8, -3), (48, 63)):
            yield load_case(
                f"element strides {strides} at {place}",
                tensor,
                "f16",
                place,
                box_bytes(tensor, "f16"),
            )
    tensor = dense_map("f16", (60, 10, 9), (16, 5, 3), element_stride=(1, 2, 2), swizzle=1)
    yield load_case("element strides 3d", tensor, "f16", (8, 1, 1), box_bytes(tensor, "f16"))
    inner = dense_map("f16", (60, 70), (32, 4), element_stride=(2, 1))
    yield load_case("element stride of dimension 0", inner, "f16", (8, 5), box_bytes(inner, "f16"))
    # Rows narrower than the swizzle width, and destinations off the pattern's start.
    for swizzle in (1, 2, 3):
        for width in (8, 16, 32, 64):
            if 2 * width <= 16 << swizzle:
                narrow = dense_map("f16", (64, 70), (width, 12), swizzle=swizzle)
                yield load_case(
                    f"rows of {2 * width} bytes, swizzle {swizzle}",
                    narrow,
                    "f16",
                    (0, 3),
                    box_bytes(narrow, "f16"),
                )
        for offset in (128, 256, 384, 640, 1024):
            shifted = dense_map("f16", (64, 70), (8 << swizzle, 9), swizzle=swizzle)
            yield load_case(
                f"destination +{offset}, swizzle {swizzle}",
                shifted,
                "f16",
                (0, 3),
                box_bytes(shifted, "f16"),
                offset=offset,
            )
    small = dense_map("bf16", (60, 70), (32, 16))
    yield load_case(
        "state space shared::cta", small, "bf16", (8, 9), 1024, destination="shared::cta"
    )
    yield load_case("tile spelled out", small, "bf16", (8, 9), 1024, form=".tile")
    yield load_case("cache hint", small, "bf16", (8, 9), 1024, hint=True)
    yield load_case("prefetches before", small, "bf16", (8, 9), 1024, form=".tile", prefetch=True)
    # Ragged trick: two extra dimensions whose strides cancel modulo 2^64 clip a sequence's rows.
    big, s = 1 << 30, 128
    ragged = TensorMap(
        0,
        TYPES["bf16"],
        (64, big, (1 << 31) - 1, (1 << 31) - 1),
        (s, (1 << 35) - s, s),
        (32, 8, 1, 1),
    )
    for length, offset, row in ((20, 100, 0), (20, 100, 16), (5, 37, 0), (3, 0, 3)):
        at = (0, big - length + row, big, offset + length)
        yield load_case(
            f"ragged length {length} offset {offset} row {row}", ragged, "bf16", at, 512
        )


REDUCTIONS = [
    (op, kind)
    for op, kinds in {
        "add": ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"),
        "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
        "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
        "inc": ("u32",),
        "dec": ("u32",),
        "and": ("u32", "s32", "u64"),
        "or": ("u32", "s32", "u64"),
        "xor": ("u32", "s32", "u64"),
    }.items()
    for kind in kinds
]


def store_cases() -> Iterator[Case]:
    for rank, places in PLACES.items():
        for swizzle in range(4):
            box = ({0: 32, 1: 16, 2: 32, 3: 64}[swizzle], *BOXES[rank][1:])
            tensor = dense_map("bf16", SIZES[rank], box, swizzle=swizzle, buffer=1)
            for place in (place for place in places[1:] if min(place) >= 0):
                yield store_case(f"swizzle {swizzle} at {place}", tensor, "bf16", place)
    strided = dense_map("f16", (60, 70), (16, 16), element_stride=(1, 3), buffer=1)
    yield store_case("element strides", strided, "f16", (48, 63))
    for spelling in (".bulk_group", ".bulk_group" + CACHE_HINT, ".tile.bulk_group" + CACHE_HINT):
        stored = dense_map("bf16", (60, 70), (32, 16), buffer=1)
        words = dense_map("u32", (50, 20), (16, 8), buffer=1)
        yield store_case(spelling, stored, "bf16", (8, 9), spelling=spelling)
        yield store_case(spelling, words, "u32", (8, 9), ".add", spelling)
    for op, kind in REDUCTIONS:
        tensor = dense_map(kind, (50, 20), (64 // element_bytes(kind), 8), buffer=1)
        yield store_case(kind, tensor, kind, (40, 15), f".{op}")
    for kind in ("f32_ftz", "tf32"):
        tensor = dense_map(kind, (50, 20), (16, 8), buffer=1)
        yield store_case(kind, tensor, kind, (40, 15))
        yield store_case(kind, tensor, kind, (40, 15), ".add")


def bulk_cases() -> Iterator[Case]:
    for destination in ("shared::cluster", "shared::cta"):
        for bytes_ in (16, 4096):
            opcode = f"cp.async.bulk.{destination}.global.mbarrier::complete_tx::bytes"
            yield _bulk(
                f"{opcode}/{bytes_}",
                fill_shared("poison")
                + f"""mov.u32 %bytes, {bytes_}; add.u64 %g, %in, 48;
@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
@%q {opcode} [%s], [%g], %bytes, [%bar];
{WAIT} {DUMP}""",
                SHARED_BYTES + 4,
            )
    hinted = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + CACHE_HINT
    yield _bulk(
        hinted,
        fill_shared("poison")
        + f"""mov.u32 %bytes, 512; {POLICY}
@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
@%q {hinted} [%s], [%in], %bytes, [%bar], %w;
{WAIT} {DUMP}""",
        SHARED_BYTES + 4,
    )
    for hinted in (
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.u32",
    ):
        copy = f"{POLICY} @%q {hinted} [%out], [%s], 512, %w; {COMMIT}"
        yield _bulk(hinted, fill_shared("input") + copy, 512)
    for bytes_ in (16, 2048):
        yield _bulk(
            f"cp.async.bulk.global.shared::cta.bulk_group/{bytes_}",
            fill_shared("input")
            + f"@%q cp.async.bulk.global.shared::cta.bulk_group [%out+32], [%s+64], {bytes_};"
            f" {COMMIT}",
            SHARED_BYTES,
        )
    for op, kind in REDUCTIONS:
        if op in ("and", "or", "xor"):
            if kind == "s32":
                continue
            kind = kind.replace("u", "b")
        spelled = (
            f"{op}.noftz.{kind}" if kind in ("f16", "bf16") and op == "add" else f"{op}.{kind}"
        )
        data = kind.replace("b", "u") if kind in ("b32", "b64") else kind
        yield _bulk(
            f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{spelled}",
            fill_shared("input")
            + f"@%q cp.reduce.async.bulk.global.shared::cta.bulk_group.{spelled} [%out], [%s], "
            f"1024; {COMMIT}",
            1024,
            data,
        )
    yield _bulk(
        "cp.async.bulk.prefetch",
        f"@%q cp.async.bulk.prefetch.L2.global [%in], 256; @%q st.global.b32 [%out], 7; {COMMIT}",
        4,
    )
    yield _bulk(
        "cp.async.bulk.wait_group.read",
        fill_shared("input") + "@%q cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 512;"
        "@%q cp.async.bulk.commit_group;"
        " @%q cp.async.bulk.global.shared::cta.bulk_group [%out+512], [%s+1024], 256;"
        "@%q cp.async.bulk.commit_group; @%q cp.async.bulk.wait_group.read 1;"
        " @%q cp.async.bulk.wait_group.read 0;"
        "@%q cp.async.bulk.wait_group 0;",
        1024,
    )


def _bulk(name: str, body: str, result: int, kind: str = "u32") -> Case:
    kernel = "k_" + identifier(name.replace("/", "_"))
    data = Input(f"random:{kind}", TENSOR_BYTES // WIDTH[kind], "bulk")
    stored = (
        Input(f"random:{kind}", result // WIDTH[kind], "bulk stored")
        if kind != "u32" or result <= 1024
        else None
    )
    compare = ulp(kind, 0.0) if kind in ("f16", "bf16", "f32", "f64") else Compare("digest")
    arguments: list[Argument] = [Buffer(TENSOR_BYTES, data), Buffer(result, stored, output=True)]
    return Case(
        name,
        kernel,
        entry(kernel, [".u64 in", ".u64 out"], PROLOGUE + body),
        arguments,
        compare=compare,
    )


def fault_cases() -> Iterator[Case]:
    """What the hardware refuses with a fault; an emulator must refuse it too."""
    tensor = dense_map("bf16", (60, 70), (32, 16))
    for x in (1, 4, -4, 7, 60):
        yield load_case(f"first coordinate {x} misaligned", tensor, "bf16", (x, 0), 1024)
    for offset in (16, 64):
        yield load_case(
            f"destination +{offset} misaligned", tensor, "bf16", (0, 0), 1024, offset=offset
        )
    stored = dense_map("bf16", (60, 70), (32, 16), buffer=1)
    for at in ((4, 0), (-8, 0), (0, -1)):
        yield store_case(f"at {at} refused", stored, "bf16", at)
    words = dense_map("u32", (50, 20), (16, 8), buffer=1)
    yield store_case("at (0, -1) refused", words, "u32", (0, -1), ".add")
    yield load_case("rank of the map is 2, of the instruction 3", tensor, "bf16", (0, 0, 0), 1024)
    for label, address, bytes_ in (
        ("source", "%g+8", 64),
        ("destination", "%g", 64),
    ):
        target = "%s+8" if label == "destination" else "%s"
        yield _bulk(
            f"cp.async.bulk misaligned {label}",
            fill_shared("poison")
            + f"""mov.u32 %bytes, {bytes_}; mov.u64 %g, %in;
@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
  [{target}], [{address}], %bytes, [%bar];
{WAIT} {DUMP}""",
            SHARED_BYTES + 4,
        )


GROUPS = {
    "tensor_fault": fault_cases,
    "tensor_load": load_cases,
    "tensor_store": store_cases,
    "bulk": bulk_cases,
}
