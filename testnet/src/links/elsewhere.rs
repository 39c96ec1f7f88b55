//! Systems without network namespaces: there are no links of one's own.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::Path;

use super::quality::Quality;
use crate::plan::Link;

/// What a network must be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Packets are held back or lost.
    pub(crate) holder: bool,
}

/// There is none.
#[derive(Debug)]
pub(crate) enum Hub {}

/// There is none.
#[derive(Debug)]
pub(crate) enum Host {}

pub(crate) fn is_inside() -> bool {
    false
}

pub(crate) fn enter(_: Wants, _: &[(&str, &Path)]) -> Result<Infallible, String> {
    Err(WHY.into())
}

impl Hub {
    pub(crate) fn new() -> Result<Self, String> {
        Err(WHY.into())
    }

    pub(crate) fn address() -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    pub(crate) fn plug(&mut self, _: &Quality) -> Result<Host, String> {
        match *self {}
    }

    pub(crate) fn holder_words(&self) -> Option<&'static str> {
        match *self {}
    }

    pub(crate) fn partition<'a>(
        &mut self,
        _: impl Iterator<Item = &'a Host>,
    ) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn is_parted(&self) -> bool {
        match *self {}
    }

    pub(crate) fn heal<'a>(&mut self, _: impl Iterator<Item = &'a Host>) -> Result<(), String> {
        match *self {}
    }
}

impl Host {
    pub(crate) fn address(&self) -> Ipv4Addr {
        match *self {}
    }

    pub(crate) fn within<T>(&self, _: impl FnOnce() -> T) -> Result<T, String> {
        match *self {}
    }

    pub(crate) fn use_cubic(&self) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn limit(&self, _: Option<Link>) -> Result<(), String> {
        match *self {}
    }
}

const WHY: &str = "only Linux has them";
