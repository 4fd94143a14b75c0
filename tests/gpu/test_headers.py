"""ctypes declarations of NVIDIA's libraries against their headers.

The headers are in packages of pip, of which the extra ``cuda-tools`` has the driver's, and in
CUDA's toolkit, whose folder ``CPATH`` names. Without them these tests are skipped.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from relax_mlir.runtime.cuda import (
    cublaslt,
    cudnn,
    devices,
    driver,
    launches,
    strided_copy,
    tensor_maps,
)

_PACKAGES = (
    "nvidia-cuda-runtime",
    "nvidia-cuda-crt",
    "nvidia-cuda-cccl",
    "nvidia-cublas",
    "nvidia-cudnn-cu13",
)
_CHECKS = """
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <type_traits>

template <class Type>
constexpr int bytes_of() { return std::is_pointer<Type>::value ? 0 : sizeof(Type); }

template <class Result, class... Arguments>
void function(const char *name, Result (*)(Arguments...), std::initializer_list<int> ours) {
  const int theirs[] = {bytes_of<Arguments>()..., 0};
  bool is_same = sizeof(Result) == sizeof(int) && sizeof...(Arguments) == ours.size();
  const int *next = theirs;
  if (is_same)
    for (int bytes : ours) is_same = is_same && bytes == *next++;
  if (!is_same) std::printf("%s has other arguments\\n", name);
}

void number(const char *name, long long theirs, long long ours) {
  if (theirs != ours) std::printf("%s is %lld, ours is %lld\\n", name, theirs, ours);
}
"""


class Library(NamedTuple):
    """Our declarations of a library.

    Attributes:
        header: its file name; functions: argument types.
        numbers: our constants, by the header's names.
        layouts: our structures and field names, by the header's names.
    """

    header: str
    functions: Mapping[str, Sequence[Any]]  # Any: types of ctypes
    numbers: Mapping[str, int]
    layouts: Mapping[str, tuple[type[ctypes.Structure], Sequence[str]]]


def _driver() -> Library:
    major, minor = driver.COMPUTE_CAPABILITY
    numbers = {
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": major,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": minor,
        "CU_DEVICE_ATTRIBUTE_MAX_PITCH": driver.MAX_PITCH_BYTES,
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": (
            driver.SHARED_BYTES_OPT_IN
        ),
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": (
            driver.MAX_DYNAMIC_SHARED_BYTES
        ),
        "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": (
            driver.PROGRAMMATIC_STREAM_SERIALIZATION
        ),
        "CUDA_ERROR_OUT_OF_MEMORY": driver._OUT_OF_MEMORY,
        "CUDA_ERROR_NOT_READY": driver._NOT_READY,
        "CU_JIT_ERROR_LOG_BUFFER": driver._ERROR_LOG,
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": driver._ERROR_LOG_BYTES,
        "CU_STREAM_NON_BLOCKING": devices._FLAGS["cuStreamCreate"],
        "CU_EVENT_DISABLE_TIMING": devices._FLAGS["cuEventCreate"],
        "CU_EVENT_DEFAULT": devices._TIMED,
        "CU_STREAM_CAPTURE_MODE_RELAXED": launches._RELAXED,
        "CU_MEMORYTYPE_DEVICE": strided_copy._DEVICE_MEMORY,
        "sizeof(CUtensorMap)": tensor_maps._MAP_BYTES,
        f"{tensor_maps._ALIGNMENT} % alignof(CUtensorMap)": 0,  # 64 before CUDA 13
        "CU_TENSOR_MAP_INTERLEAVE_NONE": tensor_maps._NO_INTERLEAVE,
        "CU_TENSOR_MAP_L2_PROMOTION_L2_128B": tensor_maps._PROMOTE_TO_128B,
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE": tensor_maps._FILL_WITH_ZEROS,
    }
    for number, name in enumerate(tensor_maps.ELEMENT_BYTES):
        numbers[f"CU_TENSOR_MAP_DATA_TYPE_{name}"] = number
    for number, name in enumerate(tensor_maps.SWIZZLE_BYTES):
        numbers[f"CU_TENSOR_MAP_SWIZZLE_{name}"] = number
    ends = [
        f"{end}{part}"
        for end in ("src", "dst")
        for part in ["XInBytes", "Y", "MemoryType", "Host", "Device", "Array", "Pitch"]
    ]
    rows = driver.Copy2D, [*ends, "WidthInBytes", "Height"]
    sizes = [f"{of}Dim{axis}" for of in ("grid", "block") for axis in "XYZ"]
    rest = ["sharedMemBytes", "hStream", "attrs", "numAttrs"]
    layouts = {
        "CUDA_MEMCPY2D": rows,
        "CUlaunchConfig": (driver.LaunchConfig, [*sizes, *rest]),
        "CUlaunchAttribute": (driver.LaunchAttribute, ["id", "pad", "value"]),
    }
    return Library("cuda.h", driver._ARGUMENTS, numbers, layouts)


def _cublaslt() -> Library:
    numbers = {
        "CUDA_R_32F": cublaslt.TYPES["f32"],
        "CUDA_R_64F": cublaslt.TYPES["f64"],
        "CUDA_R_16F": cublaslt.TYPES["f16"],
        "CUDA_R_16BF": cublaslt.TYPES["bf16"],
        "CUBLAS_COMPUTE_32F": cublaslt.COMPUTE_F32,
        "CUBLAS_COMPUTE_64F": cublaslt.COMPUTE_F64,
        "CUBLAS_COMPUTE_32F_FAST_TF32": cublaslt.COMPUTE_TF32,
        "CUBLASLT_MATMUL_DESC_TRANSA": cublaslt.TRANSPOSE_A,
        "CUBLASLT_MATMUL_DESC_TRANSB": cublaslt.TRANSPOSE_B,
        "CUBLASLT_MATMUL_DESC_EPILOGUE": cublaslt.EPILOGUE,
        "CUBLASLT_MATMUL_DESC_BIAS_POINTER": cublaslt.BIAS_POINTER,
        "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT": cublaslt.BATCH_COUNT,
        "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": cublaslt.BATCH_STEP,
        "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES": cublaslt.WORKSPACE_BYTES,
        "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK": cublaslt.REDUCTION_SCHEMES,
        "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE": cublaslt.REDUCED_IN_COMPUTE_TYPE,
        "CUBLASLT_EPILOGUE_RELU": cublaslt.EPILOGUE_RELU,
        "CUBLASLT_EPILOGUE_BIAS": cublaslt.EPILOGUE_BIAS,
    }
    for operand, number in zip("ABCD", cublaslt.ALIGNMENTS, strict=True):
        numbers[f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{operand}_BYTES"] = number
    fields = ["algo", "workspaceSize", "state", "wavesCount", "reserved"]
    found = {"cublasLtMatmulHeuristicResult_t": (cublaslt.Algorithm, fields)}
    return Library("cublasLt.h", cublaslt._ARGUMENTS, numbers, found)


# Ours, by the header's names: kinds of values, descriptors, and attributes of each.
_KINDS = {
    "HANDLE": cudnn._HANDLE,
    "DATA_TYPE": cudnn._DATA_TYPE,
    "BOOLEAN": cudnn._BOOLEAN,
    "INT64": cudnn._INT64,
    "DOUBLE": cudnn._DOUBLE,
    "VOID_PTR": cudnn._POINTER,
    "CONVOLUTION_MODE": cudnn._CONVOLUTION_MODE,
    "HEUR_MODE": cudnn._HEURISTICS_MODE,
    "NUMERICAL_NOTE": cudnn._NOTE,
    "POINTWISE_MODE": cudnn._POINTWISE_MODE,
    "BACKEND_DESCRIPTOR": cudnn._DESCRIPTOR,
}
_DESCRIPTORS = {
    "POINTWISE": cudnn.POINTWISE,
    "CONVOLUTION": cudnn.CONVOLUTION,
    "ENGINE": cudnn.ENGINE,
    "ENGINECFG": cudnn.ENGINE_CONFIG,
    "ENGINEHEUR": cudnn.HEURISTICS,
    "EXECUTION_PLAN": cudnn.PLAN,
    "OPERATION_CONVOLUTION_FORWARD": cudnn.CONVOLVE,
    "OPERATION_POINTWISE": cudnn.ELEMENTWISE,
    "OPERATIONGRAPH": cudnn.GRAPH,
    "VARIANT_PACK": cudnn.VARIANT_PACK,
    "TENSOR": cudnn.TENSOR,
}
_ATTRIBUTES = {
    "POINTWISE_MODE": cudnn.POINTWISE_MODE,
    "POINTWISE_MATH_PREC": cudnn.POINTWISE_COMPUTE_TYPE,
    "CONVOLUTION_COMP_TYPE": cudnn.CONVOLUTION_COMPUTE_TYPE,
    "CONVOLUTION_CONV_MODE": cudnn.CONVOLUTION_MODE,
    "CONVOLUTION_DILATIONS": cudnn.DILATIONS,
    "CONVOLUTION_FILTER_STRIDES": cudnn.STRIDES,
    "CONVOLUTION_POST_PADDINGS": cudnn.POST_PADS,
    "CONVOLUTION_PRE_PADDINGS": cudnn.PRE_PADS,
    "CONVOLUTION_SPATIAL_DIMS": cudnn.RANK,
    "ENGINE_NUMERICAL_NOTE": cudnn.ENGINE_NOTES,
    "ENGINECFG_ENGINE": cudnn.CONFIG_ENGINE,
    "ENGINEHEUR_MODE": cudnn.HEURISTICS_MODE,
    "ENGINEHEUR_OPERATION_GRAPH": cudnn.HEURISTICS_GRAPH,
    "ENGINEHEUR_RESULTS": cudnn.HEURISTICS_RESULTS,
    "EXECUTION_PLAN_HANDLE": cudnn.PLAN_HANDLE,
    "EXECUTION_PLAN_ENGINE_CONFIG": cudnn.PLAN_CONFIG,
    "EXECUTION_PLAN_WORKSPACE_SIZE": cudnn.PLAN_WORKSPACE_BYTES,
    "OPERATION_CONVOLUTION_FORWARD_ALPHA": cudnn.CONVOLVE_ALPHA[False],
    "OPERATION_CONVOLUTION_FORWARD_BETA": cudnn.CONVOLVE_BETA[False],
    "OPERATION_CONVOLUTION_FORWARD_CONV_DESC": cudnn.CONVOLVE_DESCRIPTOR,
    "OPERATION_CONVOLUTION_FORWARD_W": cudnn.CONVOLVE_WEIGHTS,
    "OPERATION_CONVOLUTION_FORWARD_X": cudnn.CONVOLVE_IMAGE,
    "OPERATION_CONVOLUTION_FORWARD_Y": cudnn.CONVOLVE_RESULT,
    "OPERATION_POINTWISE_PW_DESCRIPTOR": cudnn.ELEMENTWISE_DESCRIPTOR,
    "OPERATION_POINTWISE_XDESC": cudnn.ELEMENTWISE_X,
    "OPERATION_POINTWISE_BDESC": cudnn.ELEMENTWISE_B,
    "OPERATION_POINTWISE_YDESC": cudnn.ELEMENTWISE_Y,
    "OPERATIONGRAPH_HANDLE": cudnn.GRAPH_HANDLE,
    "OPERATIONGRAPH_OPS": cudnn.GRAPH_OPERATIONS,
    "VARIANT_PACK_UNIQUE_IDS": cudnn.VARIANT_PACK_IDS,
    "VARIANT_PACK_DATA_POINTERS": cudnn.VARIANT_PACK_POINTERS,
    "VARIANT_PACK_WORKSPACE": cudnn.VARIANT_PACK_WORKSPACE,
    "TENSOR_BYTE_ALIGNMENT": cudnn.TENSOR_ALIGNMENT_BYTES,
    "TENSOR_DATA_TYPE": cudnn.TENSOR_TYPE,
    "TENSOR_DIMENSIONS": cudnn.TENSOR_SIZES,
    "TENSOR_STRIDES": cudnn.TENSOR_STRIDES,
    "TENSOR_UNIQUE_ID": cudnn.TENSOR_ID,
    "TENSOR_IS_VIRTUAL": cudnn.TENSOR_IS_VIRTUAL,
}
_INEXACT_NOTES = (
    "DOWN_CONVERT_INPUTS",
    "REDUCED_PRECISION_REDUCTION",
    "FFT",
    "NONDETERMINISTIC",
    "WINOGRAD",
    "WINOGRAD_TILE_4x4",
    "WINOGRAD_TILE_6x6",
    "WINOGRAD_TILE_13x13",
)


def _cudnn() -> Library:
    by_model, by_fallback = cudnn.HEURISTICS_MODES
    numbers = {
        "CUDNN_DATA_FLOAT": cudnn.TYPES["f32"],
        "CUDNN_DATA_DOUBLE": cudnn.TYPES["f64"],
        "CUDNN_DATA_HALF": cudnn.TYPES["f16"],
        "CUDNN_DATA_BFLOAT16": cudnn.TYPES["bf16"],
        "CUDNN_CROSS_CORRELATION": cudnn.CROSS_CORRELATION,
        "CUDNN_POINTWISE_ADD": cudnn.ADD,
        "CUDNN_POINTWISE_RELU_FWD": cudnn.RELU,
        "CUDNN_HEUR_MODE_A": by_model,
        "CUDNN_HEUR_MODE_FALLBACK": by_fallback,
        "CUDNN_NUMERICAL_NOTE_TYPE_COUNT": cudnn.NOTE_COUNT,
        "CUDNN_NUMERICAL_NOTE_TENSOR_CORE": cudnn.TENSOR_CORE_NOTE,
    }
    inexact = zip(_INEXACT_NOTES, sorted(cudnn.INEXACT_NOTES), strict=True)
    tables = {
        "CUDNN_NUMERICAL_NOTE_{}": dict(inexact),
        "CUDNN_TYPE_{}": {name: kind for name, (kind, _) in _KINDS.items()},
        "CUDNN_BACKEND_{}_DESCRIPTOR": _DESCRIPTORS,
        "CUDNN_ATTR_{}": {name: a.number for name, a in _ATTRIBUTES.items()},
    }
    for form, table in tables.items():
        numbers.update({form.format(name): n for name, n in table.items()})
    return Library("cudnn.h", cudnn._ARGUMENTS, numbers, {})


@pytest.mark.parametrize(
    "library", [_driver(), _cublaslt(), _cudnn()], ids=lambda n: n.header
)
def test_ctypes_is_told_what_the_header_says(library: Library, tmp_path: Path) -> None:
    lines = [f'number("{name}", {name}, {n});' for name, n in library.numbers.items()]
    for name, types in library.functions.items():
        sizes = ", ".join(str(_bytes_of(kind)) for kind in types)
        lines.append(f'function("{name}", (decltype(&{name}))nullptr, {{{sizes}}});')
    for name, (structure, fields) in library.layouts.items():
        size = ctypes.sizeof(structure)
        lines.append(f'number("{name}", sizeof({name}), {size});')
        ours = [getattr(structure, field).offset for field, *_ in structure._fields_]
        for field, place in zip(fields, ours, strict=True):
            lines.append(
                f'number("{name}::{field}", offsetof({name}, {field}), {place});'
            )
    body = "\n".join(lines)
    text = f"{_CHECKS}#include <{library.header}>\nint main() {{\n{body}\n}}\n"
    assert _output(text, library.header, tmp_path) == ""


def _bytes_of(kind: Any) -> int:  # Any: a type of ctypes
    """Size of a type; 0 for a pointer."""
    is_pointer = kind in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(kind, "contents")
    return 0 if is_pointer else ctypes.sizeof(kind)


def _output(text: str, header: str, folder: Path) -> str:
    """The output of a C program; skips the test if it cannot be compiled."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no `g++`")
    source, program = folder / "check.cc", folder / "check"
    source.write_text(text)
    command = [compiler, "-std=c++17", *(f"-I{path}" for path in _includes())]
    probe = [*command, "-E", "-x", "c++", "-", "-o", "/dev/null"]
    found = subprocess.run(
        probe,
        input=f"#include <{header}>",
        text=True,
        stderr=subprocess.PIPE,
        check=False,
    )
    if found.returncode:
        pytest.skip(
            f"no `{header}`, or not all that it includes: {found.stderr.splitlines()[0]}"
        )
    subprocess.run([*command, str(source), "-o", str(program)], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def _includes() -> list[str]:
    """Include folders of pip packages."""
    folders: set[str] = set()
    for package in _PACKAGES:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.suffix == ".h" and file.parent.name in ("include", "cccl"):
                folders.add(str(Path(str(file.locate())).parent))
    return sorted(folders)
