//! A consumer as it was written.

use crate::common::krate::Krate;
use crate::common::spanned::Sp;
use crate::common::text::Text;
use crate::settings::model::Settings;

/// A `consumer!` item.
pub(super) struct Consumer {
    pub(super) krate: Krate,
    /// `None` is an error by now.
    pub(super) name: Option<Sp<Text>>,
    pub(super) name_given: bool,
    pub(super) settings: Settings,
}
