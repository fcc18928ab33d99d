//! frames N: `render::frame` N times with the frame's number, each `scale` of two types once.

use std::hint::black_box;

mod render {
    use std::hint::black_box;

    pub trait Draw {
        fn draw(&self, at: u64) -> u64;
    }

    pub struct Tile(pub u64);

    impl Draw for Tile {
        #[inline(never)]
        fn draw(&self, at: u64) -> u64 {
            black_box(self.0 + at)
        }
    }

    #[inline(never)]
    pub fn frame(number: u64) -> u64 {
        scale(number, 2) + u64::from(scale(3_u32, 4)) + Tile(number).draw(1)
    }

    #[inline(never)]
    pub fn scale<T: std::ops::Mul<Output = T>>(value: T, factor: T) -> T {
        black_box(value) * black_box(factor)
    }
}

fn main() {
    let count = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(10_u64);
    let sum: u64 = (0..count).map(render::frame).fold(0, u64::wrapping_add);
    black_box(sum);
}
