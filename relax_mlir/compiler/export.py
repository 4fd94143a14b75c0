"""Export of models to shared libraries, with code for several kinds of processors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relax_mlir.codegen.exported_library import Variant, c_header, link_exported
from relax_mlir.codegen.object_code import host_cpu
from relax_mlir.compiler import driver
from relax_mlir.compiler.dispatch import native_model
from relax_mlir.compiler.module_kind import module_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.errors import UnsupportedError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.archive import Contents
from relax_mlir.runtime.process_exit import awaited_at_exit
from relax_mlir.runtime.signature import Signature
from relax_mlir.support.files import atomic_file, check_writable

__all__ = ["DEFAULT_TARGETS", "export"]

# By architecture, the most demanding one first: x86-64 with AMX, with VNNI, and by levels.
DEFAULT_TARGETS = {
    "x86_64": (
        "cpu:sapphirerapids",
        "cpu:cascadelake",
        "cpu:x86-64-v4",
        "cpu:x86-64-v3",
        "cpu:x86-64-v2",
    ),
    "aarch64": ("cpu:neoverse-n1",),
}
# Those of `runtime/native/builtins.h`.
_FUNCTIONS = frozenset(
    f"relax_mlir.{name}" for name in ("argsort", "check_indices", "sort", "topk")
)


@awaited_at_exit
def export(
    mod: Any,  # Any: modules, functions, models
    path: str | os.PathLike[str],
    *,
    targets: Sequence[str] | None = None,
    name: str | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] | None = None,
    **options: Any,  # Any: fields of CompileOptions
) -> list[str]:
    """Compile a model to a shared library with a C interface, and write its header.

    The library needs the C library alone: it holds code, weights and thread pool. It is called
    from C, or loaded by :func:`relax_mlir.load`. The first call chooses the code for the
    processor.

    Args:
        mod: as for :func:`relax_mlir.compile`.
        path: of the library, ``model.so``; the header ``model.h`` is written beside it.
        targets: processors to compile for, the most demanding one first; by default the levels
            of x86-64, with VNNI, and with AMX. Those whose kernels are the same as of a less
            demanding one are left out.
        name: of the model in the C interface, an identifier; by default the file's.
        shapes, values, example_inputs: of the model, as for :func:`relax_mlir.compile`.
        options: as for :func:`relax_mlir.compile`.

    Returns:
        The targets that the library has code for.

    Raises:
        UnsupportedError: parts of the model are interpreted, or compiled when it runs, or
            call functions that this process has registered.
        CompileError: there is no linker, or code generation failed.
        ValueError: the name is no identifier.
        OSError: a file cannot be written.
    """
    output = Path(path)
    prefix = re.sub(r"\W", "_", output.stem) if name is None else name
    if not re.fullmatch(r"[A-Za-z_]\w*", prefix, re.ASCII):
        raise ValueError(f"export: `name`: expected a C identifier, got `{prefix}`")
    header = output.with_suffix(".h")
    for file in (output, header):
        check_writable(file)
    architecture = host_cpu()[0].partition("-")[0]
    chosen = tuple(targets or DEFAULT_TARGETS.get(architecture, ("cpu",)))
    module = module_of(mod, shapes=shapes, values=values, example_inputs=example_inputs)
    models = {t: _compiled(module, t, CompileOptions(**options)) for t in chosen}
    kept = _without_repetitions(models)
    variants = list(kept.values())
    signature = variants[0].signature
    fields = signature.to_fields()
    interface = json.dumps({role: fields[role] for role in ("inputs", "outputs")})
    with atomic_file(output) as library:
        link_exported(variants, library, output.name, prefix, interface)
        library.chmod(0o755)
    with atomic_file(header) as file:
        file.write_text(c_header(prefix, signature))
    return list(kept)


def _compiled(module: IRModule, target: str, options: CompileOptions) -> Variant:
    processor = driver.target_of(target)
    if processor.device != "cpu":
        raise UnsupportedError(f"export: target `{target}`: expected a CPU")
    options = replace(options, target=processor)
    model = native_model(module, options)
    if model is None:
        raise UnsupportedError(
            "export: expected a model that is compiled ahead of time as a whole, got one with "
            "nodes that are interpreted, or compiled at run time. Hint: fixed sizes (`--shape`) "
            "may decide them"
        )
    contents = driver.compile_contents(model, options)
    assert isinstance(contents, Contents)  # for a CPU
    foreign = [f for f in contents.functions if f not in _FUNCTIONS]
    if foreign:
        raise UnsupportedError(
            f"export: expected calls of functions of the runtime, got one of `{foreign[0]}`, "
            "which this process has registered"
        )
    return Variant(
        contents.code.objects,
        contents.machine,
        Signature.from_fields(contents.signature),
        contents.constants,
        contents.derivations,
        [kernel.rule for kernel in contents.kernels],
    )


def _without_repetitions(models: dict[str, Variant]) -> dict[str, Variant]:
    """Models by target, without those that use no more instructions than the next one."""
    kept: dict[str, Variant] = {}
    names = list(models)
    for name, following in zip(names, [*names[1:], ""], strict=True):
        model, less = models[name], models.get(following)
        if less is None or _kernels(model) != _kernels(less):
            kept[name] = model
    return kept


def _kernels(model: Variant) -> object:
    """Rules, packed weights and vector sizes, by which code for different processors differs."""
    shapes = [(k, model.constants[k].shape) for k in model.signature.constants]
    vectors = [f in model.machine.features for f in ("avx512f", "avx2")]
    return model.rules, shapes, vectors
