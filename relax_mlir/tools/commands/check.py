"""Check whether an ONNX model can be imported.

Every node that cannot be imported is listed with its operator, opset and the reason.
Exit status 0: the model can be imported; 1: it cannot.
"""

import argparse
import json

from relax_mlir.frontends.onnx import OnnxReport, check_onnx
from relax_mlir.tools.arguments import add_shapes, values_by_name

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", help="an ONNX model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--nodes", action="store_true", help="list covered nodes too")
    add_shapes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check a model; 1 if it cannot be imported."""
    report = check_onnx(
        arguments.model, shapes=values_by_name("--shape", arguments.shapes)
    )
    if arguments.json:
        print(json.dumps(_fields(report), indent=1))
    else:
        print("\n".join(_lines(report, nodes=arguments.nodes)))
    return 0 if report.is_ok else 1


def _lines(report: OnnxReport, *, nodes: bool) -> list[str]:
    total = sum(map(len, report.operators.values()))
    opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in report.opsets.items())
    lines = [f"{report.where}: {total} nodes, opset {opsets}"]
    width = max(map(len, report.operators), default=0)
    for name, found in sorted(report.operators.items()):
        verdict = "no rule" if name in report.uncovered else "ok"
        lines.append(f"  {name:<{width}}  {len(found):>5}  {verdict}")
        lines += [f"    `{node}`" for node in found if nodes]
    for found in report.uncovered.values():
        reason = f": {found.hint}" if found.hint else ""
        lines += [
            f"node `{node}` ({found.op_type}, opset {found.opset}): no rule{reason}"
            for node in found.nodes
        ]
    lines += [problem.message for problem in report.problems]
    if report.later:
        shown = ", ".join(f"`{name}`" for name in report.later[:3])
        more = ", ..." if len(report.later) > 3 else ""
        lines.append(
            f"compiled at run time, depending on values: {len(report.later)} nodes, "
            f"{shown}{more}"
        )
    return [*lines, _verdict(report, total)]


def _verdict(report: OnnxReport, total: int) -> str:
    if report.is_ok:
        return f"covered: all {total} nodes"
    nodes = sum(len(found.nodes) for found in report.uncovered.values())
    return (
        f"not covered: {nodes} of {total} nodes ({len(report.uncovered)} operators "
        f"without a rule), {len(report.problems)} other problems"
    )


def _fields(report: OnnxReport) -> dict[str, object]:
    return {
        "model": report.where,
        "covered": report.is_ok,
        "opsets": {d or "ai.onnx": v for d, v in report.opsets.items()},
        "operators": [
            {"operator": name, "nodes": found, "covered": name not in report.uncovered}
            for name, found in sorted(report.operators.items())
        ],
        "uncovered": [
            {
                "node": node,
                "operator": found.op_type,
                "opset": found.opset,
                "reason": found.hint or "no rule",
            }
            for found in report.uncovered.values()
            for node in found.nodes
        ],
        "problems": [problem.message for problem in report.problems],
        "compiled when it runs": report.later,
    }
