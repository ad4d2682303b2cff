//! Proves the bits of the network, and classifies the image, with the crate of the export.

use digits_sys::{Network, INPUT_IMAGE_SCALE, INPUT_IMAGE_ZERO_POINT};

/// The numbers of image.h, 0 to 16.
fn image() -> Vec<f32> {
    let (_, after) = include_str!("../image.h").split_once("= {").unwrap();
    let (numbers, _) = after.split_once('}').unwrap();
    numbers.split(',').filter_map(|word| word.trim().parse().ok()).collect()
}

fn main() {
    let mut net = Network::new();
    let same = net.selftest().is_ok();
    for (stored, pixel) in net.input_image().iter_mut().zip(image()) {
        *stored = ((pixel / 16.0 / INPUT_IMAGE_SCALE).round() as i32 + INPUT_IMAGE_ZERO_POINT).clamp(-128, 127) as i8;
    }
    net.run().expect("the network runs");
    let scores = net.output_logits();
    let digit = (0..scores.len()).max_by_key(|&index| scores[index]).unwrap();
    println!("digits: the bits are {}those of the reference", if same { "" } else { "NOT " });
    println!("digits: this is a {digit}");
}
