//! serde's `rename_all`, as serde_derive applies it.

/// A casing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Casing {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

impl Casing {
    /// serde's name of it. An unknown one is serde's error to tell.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "lowercase" => Self::Lower,
            "UPPERCASE" => Self::Upper,
            "PascalCase" => Self::Pascal,
            "camelCase" => Self::Camel,
            "snake_case" => Self::Snake,
            "SCREAMING_SNAKE_CASE" => Self::ScreamingSnake,
            "kebab-case" => Self::Kebab,
            "SCREAMING-KEBAB-CASE" => Self::ScreamingKebab,
            _ => return None,
        })
    }

    /// The name of a field, which is taken to be in snake case.
    pub(super) fn field(self, field: &str) -> String {
        match self {
            Self::Lower | Self::Snake => field.to_owned(),
            Self::Upper | Self::ScreamingSnake => field.to_ascii_uppercase(),
            Self::Pascal => pascal(field),
            Self::Camel => {
                let pascal = pascal(field);
                let mut rest = pascal.chars();
                rest.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(rest).collect()
            }
            Self::Kebab => field.replace('_', "-"),
            Self::ScreamingKebab => field.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn pascal(field: &str) -> String {
    let mut pascal = String::new();
    let mut capitalize = true;
    for c in field.chars() {
        if c == '_' {
            capitalize = true;
        } else if capitalize {
            pascal.push(c.to_ascii_uppercase());
            capitalize = false;
        } else {
            pascal.push(c);
        }
    }
    pascal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casings_are_those_of_serde() {
        let table = [
            ("lowercase", "event_id"),
            ("UPPERCASE", "EVENT_ID"),
            ("PascalCase", "EventId"),
            ("camelCase", "eventId"),
            ("snake_case", "event_id"),
            ("SCREAMING_SNAKE_CASE", "EVENT_ID"),
            ("kebab-case", "event-id"),
            ("SCREAMING-KEBAB-CASE", "EVENT-ID"),
        ];
        for (name, want) in table {
            let casing = Casing::from_name(name);
            assert_eq!(casing.map(|casing| casing.field("event_id")).as_deref(), Some(want), "{name}");
        }
        assert_eq!(Casing::from_name("Train-Case"), None);
    }

    #[test]
    fn odd_names_do_not_panic() {
        for (field, want) in
            [("", ""), ("_", ""), ("__a__b", "aB"), ("a", "a"), ("x1_y2", "x1Y2"), ("größe_ä", "größeä")]
        {
            assert_eq!(Casing::Camel.field(field), want, "{field}");
        }
    }
}
