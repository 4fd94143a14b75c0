// RUN: relax-opt %s -p relax-attach-extern-modules | filecheck %s

// Pipeline text names no modules, so what is known stays.
// CHECK: external_mods = {{\[\[}}"mine.add"]]
module attributes {relax.attrs = {external_mods = [["mine.add"]]}} {
}
