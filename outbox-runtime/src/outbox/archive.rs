//! The table that published rows are moved to: its name, and its columns, which are a promise.

use std::fmt;

/// The archive's columns, in the order in which they are written. A user may have made the table: it may have more.
pub(crate) const ARCHIVE_COLUMNS: [&str; 18] = [
    "event_id",
    "aggregate_type",
    "aggregate_id",
    "sequence",
    "event_type",
    "event_version",
    "exchange",
    "routing_key",
    "envelope",
    "payload",
    "payload_bytes",
    "headers",
    "occurred_at",
    "enqueued_at",
    "attempt_count",
    "unknown_count",
    "published_at",
    "archived_at",
];

/// Those that a published row brings along; `archived_at` is set by the move.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! moved_columns {
    ($prefix:literal) => {
        concat!(
            $prefix,
            "event_id, ",
            $prefix,
            "aggregate_type, ",
            $prefix,
            "aggregate_id, ",
            $prefix,
            "sequence, ",
            $prefix,
            "event_type, ",
            $prefix,
            "event_version, ",
            $prefix,
            "exchange, ",
            $prefix,
            "routing_key, ",
            $prefix,
            "envelope, ",
            $prefix,
            "payload, ",
            $prefix,
            "payload_bytes, ",
            $prefix,
            "headers, ",
            $prefix,
            "occurred_at, ",
            $prefix,
            "enqueued_at, ",
            $prefix,
            "attempt_count, ",
            $prefix,
            "unknown_count, ",
            $prefix,
            "published_at"
        )
    };
}
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use moved_columns;

/// Tables of ours: rows that were moved there would be claimed, or would stop somebody.
const OURS: [&str; 9] = [
    "outbox_messages",
    "outbox_sequences",
    "outbox_settings",
    "outbox_wakeup",
    "inbox_messages",
    "inbox_floors",
    "parked_messages",
    "queue_bindings",
    "queue_messages",
];

/// `table` or `schema.table`, checked, and quoted wherever it stands in SQL.
#[derive(Clone, PartialEq, Eq)]
pub struct ArchiveTable {
    schema: Option<String>,
    table: String,
}

impl ArchiveTable {
    /// Takes a name that needs no quotes, though it gets them; the error says what is wrong with it.
    ///
    /// # Errors
    /// If a part is empty, longer than 63 bytes or has other characters than letters, digits and `_`, or if it is a table of outbox.
    pub fn parse(name: &str) -> Result<Self, String> {
        let (schema, table) = match name.split_once('.') {
            Some((schema, table)) => (Some(schema), table),
            None => (None, name),
        };
        for part in schema.iter().chain([&table]) {
            let first = part.bytes().next();
            let fits = part.len() <= 63 && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !fits || first.is_none_or(|b| b.is_ascii_digit()) {
                return Err(format!(
                    "{} is not `table` or `schema.table` of ASCII letters, digits and `_`, each part at most 63 bytes and not beginning with a digit",
                    crate::error::shown(name)
                ));
            }
        }
        let lower = table.to_ascii_lowercase();
        if OURS.contains(&lower.as_str()) || lower.starts_with("_outbox") || lower.starts_with("sqlite_") {
            return Err(format!("{} is a table of outbox or of the database itself", crate::error::shown(name)));
        }
        Ok(Self { schema: schema.map(str::to_owned), table: table.to_owned() })
    }

    /// The name with quotes.
    pub(crate) fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{}\"", self.table),
            None => format!("\"{}\"", self.table),
        }
    }

    /// The schema, if the name has one.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "PostgreSQL takes the quoted name as a whole"))]
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table's own name.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "PostgreSQL takes the quoted name as a whole"))]
    pub(crate) fn table(&self) -> &str {
        &self.table
    }
}

impl fmt::Display for ArchiveTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.table)
    }
}

impl fmt::Debug for ArchiveTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether rows can be moved to an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveState {
    /// They can.
    Ready,
    /// There is no such table.
    MissingTable,
    /// The table lacks these columns.
    MissingColumns(Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_identifier_and_is_quoted() {
        let quoted = |name| ArchiveTable::parse(name).map(|table| table.quoted());
        assert_eq!(quoted("published_events").as_deref(), Ok("\"published_events\""));
        assert_eq!(quoted("Audit.Events2").as_deref(), Ok("\"Audit\".\"Events2\""));
        let long = "x".repeat(64);
        for wrong in ["", ".", "a.", ".a", "a.b.c", "a b", "a\"b", "1a", "a;--", "ä", "a\0", long.as_str()] {
            assert!(ArchiveTable::parse(wrong).is_err(), "{wrong:?}");
        }
        for ours in ["outbox_messages", "x.OUTBOX_MESSAGES", "inbox_messages", "_outbox_migrations", "sqlite_master"] {
            assert!(ArchiveTable::parse(ours).is_err_and(|why| why.contains("is a table of")), "{ours:?}");
        }
        #[cfg(any(feature = "postgres", feature = "sqlite"))]
        assert_eq!(ARCHIVE_COLUMNS[..17].join(", "), moved_columns!(""), "one list, in one order");
    }
}
