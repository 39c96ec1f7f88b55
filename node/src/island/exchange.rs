//! Where the island meets the outer state: capture and adopt, between pieces of steps.

use atoll_protocol::codec::{Codec, NonFinite, PayloadError};
use atoll_protocol::id::FragmentId;
use atoll_protocol::island::Account;
use atoll_protocol::pool::Pool;

use super::{Island, IslandError};

/// The accounts of all fragments: `local = outer + pending + fresh` for each.
#[derive(Debug)]
pub struct Exchange {
    codec: Codec,
    accounts: Vec<Account>,
}

/// Why a fragment could not be captured or adopted. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The island failed.
    #[error(transparent)]
    Island(#[from] IslandError),
    /// The parameters are no numbers.
    #[error(transparent)]
    NotFinite(#[from] NonFinite),
    /// An own payload cannot be read.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

impl Exchange {
    /// The accounts of an island whose parameters are those of the outer state.
    pub fn new(island: &mut dyn Island, fragments: u16, codec: Codec) -> Result<Self, IslandError> {
        let mut accounts = Vec::new();
        for fragment in (0..fragments).map(FragmentId) {
            island.read(fragment, &mut |outer| accounts.push(Account::new(outer)))?;
        }
        Ok(Self { codec, accounts })
    }

    /// The accounts of an island that comes back with them.
    pub fn resume(accounts: Vec<Account>, codec: Codec) -> Self {
        Self { codec, accounts }
    }

    /// One fragment's account.
    pub fn account(&self, fragment: FragmentId) -> Option<&Account> {
        self.accounts.get(fragment.index())
    }

    /// Encodes what a fragment learned since its last capture as a payload.
    pub fn capture(
        &mut self,
        island: &mut dyn Island,
        fragment: FragmentId,
        pool: &dyn Pool,
    ) -> Result<Vec<u8>, ExchangeError> {
        let codec = self.codec;
        let account = held(&mut self.accounts, fragment)?;
        let mut captured = Ok(Vec::new());
        island.read(fragment, &mut |local| captured = account.capture(local, codec, pool))?;
        Ok(captured?)
    }

    /// Puts an outer version of a fragment under the island's own progress; `pending` and
    /// `reissued` as in [`Account::adopt`].
    pub fn adopt(
        &mut self,
        island: &mut dyn Island,
        fragment: FragmentId,
        outer: &[f32],
        pending: &[&[u8]],
        reissued: &[&[u8]],
        pool: &dyn Pool,
    ) -> Result<(), ExchangeError> {
        let codec = self.codec;
        let account = held(&mut self.accounts, fragment)?;
        let mut adopted = Ok(());
        island.change(fragment, &mut |local| {
            adopted = account.adopt(local, outer, pending, reissued, codec, pool);
        })?;
        Ok(adopted?)
    }
}

fn held(accounts: &mut [Account], fragment: FragmentId) -> Result<&mut Account, IslandError> {
    accounts.get_mut(fragment.index()).ok_or(IslandError::NoFragment(fragment))
}
