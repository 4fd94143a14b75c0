// The folder of the library, where `relax-mlir export models/fashion_mlp.onnx -o fashion.so` wrote it.
use std::{env, path::Path};

fn main() {
    println!("cargo:rerun-if-env-changed=FASHION_LIB_DIR");
    let folder = env::var("FASHION_LIB_DIR").unwrap_or_else(|_| ".".to_string());
    let library = Path::new(&folder).join("fashion.so");
    println!("cargo:rustc-link-arg={}", library.display());
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
}
