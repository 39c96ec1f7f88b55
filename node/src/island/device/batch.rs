//! The tokens of one step.

use super::error::DeviceError;

/// The tokens of one step: rows of `sequence + 1` tokens, one after another.
///
/// Every token of a row but the last is an input, and every token but the first a target, so a
/// row teaches `sequence` predictions.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    tokens: &'a [u32],
    sequence: usize,
}

impl<'a> Batch<'a> {
    /// A batch over `tokens`, which must be whole rows.
    pub fn new(tokens: &'a [u32], sequence: usize) -> Result<Self, DeviceError> {
        let row = sequence + 1;
        if sequence == 0 || tokens.is_empty() || !tokens.len().is_multiple_of(row) {
            return Err(DeviceError::Batch { tokens: tokens.len(), row });
        }
        Ok(Self { tokens, sequence })
    }

    /// Tokens that a row predicts.
    pub fn sequence(&self) -> usize {
        self.sequence
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.tokens.len() / (self.sequence + 1)
    }

    /// Predictions in the whole batch.
    pub fn predictions(&self) -> usize {
        self.rows() * self.sequence
    }

    /// Inputs of all rows, one after another.
    pub fn inputs(&self) -> Vec<u32> {
        self.gather(0)
    }

    /// Targets of all rows, one after another.
    pub fn targets(&self) -> Vec<u32> {
        self.gather(1)
    }

    fn gather(&self, first: usize) -> Vec<u32> {
        let rows = self.tokens.chunks_exact(self.sequence + 1);
        rows.flat_map(|row| &row[first..first + self.sequence]).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_inputs_one_later() {
        let batch = Batch::new(&[1, 2, 3, 7, 8, 9], 2).unwrap();
        assert_eq!((batch.rows(), batch.predictions()), (2, 4));
        assert_eq!(batch.inputs(), [1, 2, 7, 8]);
        assert_eq!(batch.targets(), [2, 3, 8, 9]);
        for (tokens, sequence) in [(&[1, 2, 3][..], 1), (&[], 1), (&[1], 0)] {
            assert!(matches!(Batch::new(tokens, sequence), Err(DeviceError::Batch { .. })));
        }
    }
}
