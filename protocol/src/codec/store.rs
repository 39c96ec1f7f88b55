/// What is done with a decoded value.
///
/// Decoders are written once and compiled for both, so that accumulating is bit for bit the same
/// as decoding first and adding then.
pub(super) trait Store: Copy {
    /// Puts `value` into `slot` or adds it to it.
    fn store(self, slot: &mut f32, value: f32);
}

/// The decoded value replaces what was there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replace;

impl Store for Replace {
    #[inline(always)]
    fn store(self, slot: &mut f32, value: f32) {
        *slot = value;
    }
}

/// The decoded value is weighted and added: two roundings, never a fused one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Add {
    /// Factor of every decoded value.
    pub(super) weight: f32,
}

impl Store for Add {
    #[inline(always)]
    fn store(self, slot: &mut f32, value: f32) {
        *slot += self.weight * value;
    }
}
