//! Classifies images by an exported model.
//!
//! ```text
//! relax-mlir export models/fashion_mlp.onnx -o fashion.so
//! FASHION_LIB_DIR=$PWD cargo run --manifest-path examples/native/rust/Cargo.toml images.bin
//! ```
use std::ffi::{c_char, c_void, CStr};
use std::{env, fs, process, ptr};

/// `relax_mlir_tensor` of `fashion.h`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

extern "C" {
    fn fashion_run(inputs: *const Tensor, outputs: *const Tensor, threads: i32) -> i32;
    fn fashion_error() -> *const c_char;
}

/// A contiguous tensor of f32.
fn floats(data: &mut [f32], shape: &mut [i64]) -> Tensor {
    Tensor {
        data: data.as_mut_ptr().cast(),
        device_type: 1,
        device_id: 0,
        ndim: shape.len() as i32,
        type_code: 2,
        type_bits: 32,
        type_lanes: 1,
        shape: shape.as_mut_ptr(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    }
}

/// The logits of some images, 784 pixels each.
fn logits(images: &mut [f32]) -> Result<Vec<f32>, String> {
    let count = images.len() / 784;
    let mut logits = vec![0.0; count * 10];
    let (mut image_shape, mut logit_shape) = ([count as i64, 784], [count as i64, 10]);
    let input = floats(&mut images[..count * 784], &mut image_shape);
    let output = floats(&mut logits, &mut logit_shape);
    // The tensors describe slices that outlive the call.
    if unsafe { fashion_run(&input, &output, 0) } != 0 {
        let text = unsafe { CStr::from_ptr(fashion_error()) };
        return Err(text.to_string_lossy().into_owned());
    }
    Ok(logits)
}

fn main() {
    let Some(path) = env::args().nth(1) else {
        eprintln!("usage: classify images.bin");
        process::exit(2);
    };
    let bytes = fs::read(&path).unwrap_or_else(|error| {
        eprintln!("{path}: {error}");
        process::exit(1);
    });
    let mut images: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    match logits(&mut images) {
        Ok(logits) => {
            for row in logits.chunks(10) {
                let best = (0..10).max_by(|&a, &b| row[a].total_cmp(&row[b]));
                println!("{}", best.unwrap_or(0));
            }
        }
        Err(error) => {
            eprintln!("{error}");
            process::exit(1);
        }
    }
}
