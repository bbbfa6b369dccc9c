//! Headers that a caller adds to an event: JSON values by name, checked so that each has a legal AMQP form.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::Problem;
use crate::event::name;

/// A caller's headers: sent with the event, handed to the handler.
pub type HeaderMap = BTreeMap<String, Value>;

/// All headers of one event together, as AMQP encodes them: they must fit one frame (128 KiB by default) with room to spare.
pub(crate) const HEADERS_BYTES: usize = 64 * 1024;
const HEADER_DEPTH: usize = 8;

/// Keys that belong to us or to the broker.
fn reserved(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.starts_with("outbox-") || key.starts_with("x-") || key == "traceparent" || key == "tracestate"
}

/// Every problem of a header map, in the order of its keys.
pub(crate) fn check(headers: &HeaderMap, problems: &mut Vec<Problem>) {
    for (key, value) in headers {
        if let Err(problem) = name::short_string(key) {
            problems.push(Problem::name("header key", key, problem));
        } else if reserved(key) {
            problems.push(Problem::header(key, "is reserved: keys that begin with `outbox-` or `x-`, `traceparent` and `tracestate` are set by the runtime or the broker"));
        }
        if let Err(why) = check_value(value, HEADER_DEPTH) {
            problems.push(Problem::header(key, why));
        }
    }
    let bytes = amqp_bytes(headers);
    if bytes > HEADERS_BYTES {
        problems.push(Problem::too_large("the headers", bytes, HEADERS_BYTES));
    }
}

/// What a header map takes on the wire. Much more than its JSON may: each number has nine bytes.
pub(crate) fn amqp_bytes(headers: &HeaderMap) -> usize {
    4 + headers.iter().map(|(key, value)| 1 + key.len() + value_bytes(value)).sum::<usize>()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Number(_) => 9,
        Value::String(s) => 5 + s.len(),
        Value::Array(items) => 5 + items.iter().map(value_bytes).sum::<usize>(),
        Value::Object(fields) => {
            5 + fields.iter().map(|(key, value)| 1 + key.len() + value_bytes(value)).sum::<usize>()
        }
    }
}

fn check_value(value: &Value, depth: usize) -> Result<(), &'static str> {
    if depth == 0 {
        return Err("is nested too deeply: at most 8 levels");
    }
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(n) if n.is_i64() || n.is_f64() => Ok(()),
        Value::Number(_) => Err("is an integer above i64::MAX, which AMQP has no type for: send it as a string"),
        Value::String(s) if s.contains('\0') => Err("has a NUL character"),
        Value::String(_) => Ok(()),
        Value::Array(items) => items.iter().try_for_each(|item| check_value(item, depth - 1)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            name::short_string(key)
                .map_err(|_| "has a nested key that is empty, longer than 255 bytes, or has a control character")?;
            check_value(value, depth - 1)
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_without_a_legal_amqp_form_are_refused() {
        let table = [
            ("plain", json!("text"), true),
            ("int", json!(i64::MIN), true),
            ("float", json!(1.5), true),
            ("bool", json!(true), true),
            ("null", json!(null), true),
            ("array", json!([1, "a", [false]]), true),
            ("table", json!({"a": {"b": 1}}), true),
            ("u64", json!(u64::MAX), false),
            ("nested-u64", json!([u64::MAX]), false),
            ("nul", json!("a\0b"), false),
            ("empty-nested-key", json!({"": 1}), false),
            ("", json!("x"), false),
            ("x-death", json!("x"), false),
            ("outbox-event", json!("x"), false),
            ("traceparent", json!("x"), false),
        ];
        for (key, value, ok) in table {
            let mut problems = Vec::new();
            check(&HeaderMap::from([(key.to_owned(), value)]), &mut problems);
            assert_eq!(problems.is_empty(), ok, "{key}: {problems:?}");
        }
        let mut problems = Vec::new();
        check(
            &HeaderMap::from([("k".repeat(300), json!(1)), ("big".into(), json!("x".repeat(70_000)))]),
            &mut problems,
        );
        assert_eq!(problems.len(), 2, "all problems at once: {problems:?}");
        // F11: 16 KB of JSON, 72 KB on the wire.
        let mut problems = Vec::new();
        check(&HeaderMap::from([("numbers".into(), json!(vec![1; 8_000]))]), &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
