//! The hostile surroundings of `outbox-ui-tests`, in edition 2021.
