//! Random numbers from a counter: a key and a position determine the numbers, regardless of what
//! was sampled before. The generator is Philox4x32-10 (Salmon et al., SC 2011).

/// The key of a chain's random numbers. Equal keys give equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The seed of the run. Other seeds give independent numbers.
    pub seed: u64,
    /// A hash of the problem that is the same in every run, so that problems have different
    /// numbers.
    pub problem: u64,
    /// The number of the chain's random stream within the problem.
    pub chain: u64,
}

impl Key {
    /// Returns the random numbers for the token at `position` in the chain.
    #[must_use]
    pub fn at(self, position: u32) -> Draw {
        // The three 64-bit numbers are hashed into the 128 bits that the position and the block's
        // number leave free.
        let low = mix(self.seed ^ mix(self.problem));
        let high = mix(self.chain ^ mix(self.problem ^ 0x5851_F42D_4C95_7F2D));
        Draw {
            key: words(low),
            counter: [0, position, words(high)[0], words(high)[1]],
            block: [0; 4],
            left: 0,
        }
    }
}

/// The random numbers of one position of a chain, in blocks of four words.
#[derive(Clone, Debug)]
pub struct Draw {
    key: [u32; 2],
    /// The block's number, the position, and two words of the hashed key.
    counter: [u32; 4],
    /// The current block. Its last `left` words are unused.
    block: [u32; 4],
    left: usize,
}

impl Draw {
    /// Returns the next 32 random bits. Any number of them may be taken.
    pub fn bits(&mut self) -> u32 {
        if self.left == 0 {
            self.block = philox(self.counter, self.key);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.left = 4;
        }
        self.left -= 1;
        self.block[3 - self.left]
    }

    /// Returns the key and counter of the first block, from which the first
    /// [`uniform`](Self::uniform) number comes. A device computes that number from them itself.
    #[must_use]
    pub fn key_and_counter(&self) -> ([u32; 2], [u32; 4]) {
        (self.key, self.counter)
    }

    /// Returns a number from the uniform distribution on `[0, 1)`, with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        // The high word comes first, like in the CUDA kernels.
        let bits = u64::from(self.bits()) << 32 | u64::from(self.bits());
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn words(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// `SplitMix64`'s finaliser: a bijection that spreads every bit over all.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Computes one block of Philox4x32-10, with the constants of the paper.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let (high0, low0) = wide_product(0xD251_1F53, counter[0]);
        let (high1, low1) = wide_product(0xCD9E_8D57, counter[2]);
        counter = [
            high1 ^ counter[1] ^ key[0],
            low1,
            high0 ^ counter[3] ^ key[1],
            low0,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    counter
}

fn wide_product(a: u32, b: u32) -> (u32, u32) {
    let p = u64::from(a) * u64::from(b);
    ((p >> 32) as u32, p as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected blocks are from `kat_vectors` of Random123.
    #[test]
    fn philox_gives_the_known_answers() {
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [!0; 4],
                [!0; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, want) in cases {
            assert_eq!(philox(counter, key), want);
        }
    }

    #[test]
    fn the_same_place_gives_the_same_draws() {
        let key = Key {
            seed: 1,
            problem: 2,
            chain: 3,
        };
        let draws = |key: Key, position| {
            let mut draw = key.at(position);
            std::array::from_fn::<u32, 9, _>(|_| draw.bits())
        };
        let base = draws(key, 7);
        assert_eq!(base, draws(key, 7));
        for other in [
            draws(key, 8),
            draws(Key { seed: 2, ..key }, 7),
            draws(Key { problem: 3, ..key }, 7),
            draws(Key { chain: 4, ..key }, 7),
            draws(
                Key {
                    seed: 2,
                    problem: 1,
                    ..key
                },
                7,
            ),
        ] {
            assert!(base.iter().zip(other).all(|(a, b)| *a != b));
        }
    }

    #[test]
    fn uniforms_are_uniform_along_positions_and_chains() {
        const BINS: usize = 64;
        for along_chains in [false, true] {
            let mut bins = [0u32; BINS];
            let n = 64_000u32;
            for i in 0..n {
                let chain = if along_chains { u64::from(i) } else { 9 };
                let key = Key {
                    seed: 5,
                    problem: 6,
                    chain,
                };
                let u = key.at(if along_chains { 3 } else { i }).uniform();
                assert!((0.0..1.0).contains(&u));
                bins[(u * BINS as f64) as usize] += 1;
            }
            let expected = f64::from(n) / BINS as f64;
            let chi2: f64 = bins
                .iter()
                .map(|b| (f64::from(*b) - expected).powi(2) / expected)
                .sum();
            // 63 degrees of freedom: mean 63, standard deviation 11.2.
            assert!((25.0..115.0).contains(&chi2), "chi-squared {chi2}");
        }
    }
}
