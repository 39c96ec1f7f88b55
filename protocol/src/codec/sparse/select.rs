use super::BLOCK;

/// Finds the values of largest magnitude, block after block.
///
/// The answer is exact and does not depend on earlier blocks; they only tell where to look first.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    keys: Vec<u32>,
    candidates: Vec<u16>,
    order: Vec<u32>,
    /// Keys below this are probably not among the largest.
    floor: u32,
}

impl Default for Selector {
    fn default() -> Self {
        Self { keys: vec![0; BLOCK], candidates: vec![0; BLOCK], order: Vec::new(), floor: 0 }
    }
}

impl Selector {
    /// The positions, in order, of the `count` values of largest magnitude; of equal ones the
    /// first. There must be at most [`BLOCK`] finite values, and at least `count`.
    pub(super) fn largest(&mut self, block: &[f32], count: usize) -> &[u16] {
        let keys = &mut self.keys[..block.len()];
        for (key, value) in keys.iter_mut().zip(block) {
            // Magnitudes are ordered like their bits.
            *key = value.abs().to_bits();
        }
        let mut found = compact(keys, self.floor, &mut self.candidates);
        if found < count {
            found = compact(keys, 0, &mut self.candidates);
        }
        let candidates = &mut self.candidates[..found];
        self.order.clear();
        self.order.extend(candidates.iter().map(|&at| keys[usize::from(at)]));
        let (_, &mut least, _) = self.order.select_nth_unstable(found - count);
        // Half a power of two below the least of the largest: roughly seven tenths of it.
        self.floor = least.saturating_sub(1 << 22);
        let above = self.order[found - count..].iter().filter(|&&key| key > least).count();
        retain(candidates, keys, least, count - above)
    }
}

/// Writes the positions of all keys from `floor` on and returns how many they are. Without a
/// branch in the loop: which keys are large is anyone's guess.
fn compact(keys: &[u32], floor: u32, positions: &mut [u16]) -> usize {
    let mut found = 0;
    for (position, &key) in (0u16..).zip(keys) {
        positions[found] = position;
        found += usize::from(key >= floor);
    }
    found
}

/// Moves the positions of keys above `least`, and the first `ties` equal to it, to the front.
fn retain<'a>(positions: &'a mut [u16], keys: &[u32], least: u32, mut ties: usize) -> &'a [u16] {
    let mut kept = 0;
    for index in 0..positions.len() {
        let position = positions[index];
        let key = keys[usize::from(position)];
        let tied = key == least && ties > 0;
        ties -= usize::from(tied);
        if key > least || tied {
            positions[kept] = position;
            kept += 1;
        }
    }
    &positions[..kept]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_with_ties_and_after_any_block() {
        let mut selector = Selector::default();
        let values = [1.0f32, -3.0, 2.0, -2.0, 0.0, 2.0];
        assert_eq!(selector.largest(&values, 3), [1, 2, 3]);
        assert_eq!(selector.largest(&[1e-9, 0.0, -2e-9, 1e-9], 2), [0, 2]);
        assert_eq!(selector.largest(&[0.0; 5], 2), [0, 1]);
        assert_eq!(selector.largest(&[1e30, 1e-30], 2), [0, 1]);
    }
}
