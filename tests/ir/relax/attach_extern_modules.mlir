// RUN: relax-opt %s -p relax-attach-extern-modules | filecheck %s

// Pipeline text has no modules, so the attached ones stay.
// CHECK: external_mods = {{\[\[}}"mine.add"]]
module attributes {relax.attrs = {external_mods = [["mine.add"]]}} {
}
