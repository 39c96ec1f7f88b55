//! Initial parameters from a seed: the same bits on every machine.

use super::Genesis;
use super::tensor::{Init, TensorSpec};
use crate::crypto;
use crate::fragment::Fragment;
use crate::pool::{self, Inline, Pool};
use crate::rng::Rng;
use crate::wire::tag::Domain;

impl Genesis {
    /// The seeded initial parameters of `fragment`, in its layout.
    ///
    /// A run whose `init_content` names a file begins with that file instead. Every tensor has
    /// a stream of its own, so the values do not depend on the number of fragments.
    pub fn initial(&self, fragment: &Fragment) -> Vec<f32> {
        self.initial_with(fragment, &Inline)
    }

    /// [`Genesis::initial`], with the tensors drawn on `pool`.
    pub fn initial_with(&self, fragment: &Fragment, pool: &dyn Pool) -> Vec<f32> {
        let mut values = vec![0.0; fragment.elements];
        let mut rest = values.as_mut_slice();
        let mut parts = Vec::with_capacity(fragment.pieces.len());
        for piece in &fragment.pieces {
            let (part, behind) = rest.split_at_mut(piece.len);
            rest = behind;
            parts.push((&self.tensors[piece.tensor], part));
        }
        pool::map(pool, parts, |(tensor, part)| match tensor.init {
            Init::Zeros => {}
            Init::Ones => part.fill(1.0),
            Init::Normal(std) => self.draw(tensor, std, part),
        });
        values
    }

    fn draw(&self, tensor: &TensorSpec, std: f32, values: &mut [f32]) {
        let seed = self.init_seed.to_le_bytes();
        let mut rng = Rng::from_seed(crypto::hash(Domain::Init, &[&seed, tensor.name.as_bytes()]));
        let scale = f64::from(std) / (VARIANCE.sqrt() * UNIT);
        for value in values {
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
            let drawn = (bell(&mut rng) as f64 * scale) as f32;
            *value = drawn;
        }
    }
}

/// A bell-shaped integer with mean 0 and variance `VARIANCE`, in units of `1 / UNIT`.
///
/// The ones among 64 random bits are binomial, which is nearly normal; the difference of two
/// uniform numbers, a triangle as wide as the gaps, fills the space between the integers. No
/// logarithm or cosine is needed, whose last bit differs between platforms. The tails end at
/// eight standard deviations, and the kurtosis is 2.97 where a normal has 3.
fn bell(rng: &mut Rng) -> i64 {
    let ones = i64::from(rng.next_u64().count_ones());
    let noise = rng.next_u64();
    let difference = (noise >> 32).cast_signed() - (noise & 0xffff_ffff).cast_signed();
    ((ones - 32) << 32) + difference
}

/// 64 coins of variance 1/4, and two uniform numbers of variance 1/12.
const VARIANCE: f64 = 16.0 + 1.0 / 6.0;
/// One coin in [`bell`]'s units.
const UNIT: f64 = 4_294_967_296.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::FragmentMap;
    use crate::genesis::{Model, TensorKind};

    fn drawn(std: f32, len: u32) -> Vec<f32> {
        let tensor = TensorSpec::new("w", &[len], TensorKind::Vector, Init::Normal(std));
        let genesis = Genesis::custom("draws", vec![tensor]);
        genesis.initial(genesis.fragment_map().fragments().first().unwrap())
    }

    #[test]
    fn the_bell_has_its_moments() {
        let values = drawn(0.02, 1_000_000);
        let moment = |power: u32| {
            let sum: f64 = values
                .iter()
                .map(|&value| (0..power).fold(1.0, |product, _| product * f64::from(value) / 0.02))
                .sum();
            sum / values.len() as f64
        };
        assert!(moment(1).abs() < 0.005, "{}", moment(1));
        assert!((moment(2).sqrt() - 1.0).abs() < 0.003, "{}", moment(2));
        assert!(moment(3).abs() < 0.02, "{}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.06, "{}", moment(4));
        // Shares of a normal within one and two standard deviations.
        for (deviations, share) in [(1.0, 0.6827), (2.0, 0.9545)] {
            let inside = values.iter().filter(|value| value.abs() < 0.02 * deviations).count();
            assert!((inside as f64 / 1e6 - share).abs() < 0.005, "{deviations}: {inside}");
        }
    }

    #[test]
    fn fragments_do_not_change_the_values() {
        let mut genesis = Genesis::new("layout", Model::preset("nano").unwrap());
        let mut tensors = |fragments: u16| {
            genesis.fragments = fragments;
            let mut tensors = vec![Vec::new(); genesis.tensors.len()];
            for fragment in genesis.fragment_map().fragments() {
                let values = genesis.initial(fragment);
                assert_eq!(values.len(), fragment.elements);
                for piece in &fragment.pieces {
                    tensors[piece.tensor] = values[piece.start..][..piece.len].to_vec();
                }
            }
            tensors
        };
        assert!(tensors(1) == tensors(7));
    }

    #[test]
    fn the_bits_are_fixed_for_ever() {
        let genesis = Genesis::new("golden", Model::preset("nano").unwrap());
        let digests: Vec<String> = genesis
            .fragment_map()
            .fragments()
            .iter()
            .map(|fragment| {
                let bytes: Vec<u8> = genesis
                    .initial(fragment)
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                crypto::content_id(&bytes).to_string()
            })
            .collect();
        assert_eq!(digests, ["38802f77", "5861f047", "737fa637", "1060f593"]);
    }

    #[test]
    fn another_seed_or_name_gives_other_values() {
        let mut genesis = Genesis::new("seeds", Model::preset("nano").unwrap());
        let map = genesis.fragment_map();
        let first = genesis.initial(&map.fragments()[0]);
        // Two tensors that are alike in all but their names.
        let name = |layer| format!("model.layers.{layer}.mlp.up_proj.weight");
        let whole = FragmentMap::new(&genesis.tensors, 1);
        let values = genesis.initial(&whole.fragments()[0]);
        let part = |layer| {
            let tensor = genesis.tensors.iter().position(|t| t.name == name(layer)).unwrap();
            let piece = &whole.fragments()[0].pieces[tensor];
            &values[piece.start..][..piece.len]
        };
        assert!(part(0) != part(1));
        genesis.init_seed = 1;
        assert!(first != genesis.initial(&map.fragments()[0]));
    }
}
