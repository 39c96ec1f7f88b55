//! Cross-crate tests of Atoll live in `tests/tests`; this library is empty on purpose.
