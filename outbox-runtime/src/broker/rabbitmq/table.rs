//! JSON to AMQP tables and back.

use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use serde_json::{Map, Value};

/// A JSON value as the AMQP type that every client reads; `None` for what has no legal form (checked at enqueue, so only in rows that
/// somebody else wrote).
pub(super) fn to_amqp(value: &Value) -> Option<AMQPValue> {
    Some(match value {
        Value::Null => AMQPValue::Void,
        Value::Bool(b) => AMQPValue::Boolean(*b),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => AMQPValue::LongLongInt(i),
            (None, Some(f)) if !n.is_u64() => AMQPValue::Double(f),
            _ => return None,
        },
        Value::String(s) => text(s),
        Value::Array(items) => AMQPValue::FieldArray(items.iter().map(to_amqp).collect::<Option<Vec<_>>>()?.into()),
        Value::Object(fields) => {
            let mut table = FieldTable::default();
            for (key, value) in fields {
                table.insert(ShortString::try_new(key.as_str()).ok()?, to_amqp(value)?);
            }
            AMQPValue::FieldTable(table)
        }
    })
}

/// A long string: the only string type that RabbitMQ takes in a table.
pub(super) fn text(s: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(s))
}

/// A table as JSON. Bytes that are not UTF-8 are replaced: they are for people and for our own headers, never for the body.
pub(super) fn to_json(table: &FieldTable) -> Map<String, Value> {
    table.inner().iter().map(|(key, value)| (key.to_string(), value_to_json(value))).collect()
}

fn value_to_json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(b) => Value::from(*b),
        AMQPValue::ShortShortInt(n) => Value::from(*n),
        AMQPValue::ShortShortUInt(n) => Value::from(*n),
        AMQPValue::ShortInt(n) => Value::from(*n),
        AMQPValue::ShortUInt(n) => Value::from(*n),
        AMQPValue::LongInt(n) => Value::from(*n),
        AMQPValue::LongUInt(n) => Value::from(*n),
        AMQPValue::LongLongInt(n) => Value::from(*n),
        AMQPValue::Float(n) => Value::from(*n),
        AMQPValue::Double(n) => Value::from(*n),
        AMQPValue::DecimalValue(n) => Value::from(format!("{n:?}")),
        AMQPValue::ShortString(s) => Value::from(s.as_str()),
        AMQPValue::LongString(s) => Value::from(String::from_utf8_lossy(s.as_bytes()).into_owned()),
        AMQPValue::FieldArray(items) => items.as_slice().iter().map(value_to_json).collect(),
        AMQPValue::Timestamp(n) => Value::from(*n),
        AMQPValue::FieldTable(table) => Value::Object(to_json(table)),
        AMQPValue::ByteArray(bytes) => bytes.as_slice().iter().copied().map(Value::from).collect(),
        AMQPValue::Void => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// F11: every header that enqueue lets through has a legal type and comes back equal.
    #[test]
    fn headers_come_back_as_they_went() {
        for value in [
            json!(null),
            json!(true),
            json!(i64::MIN),
            json!(i64::MAX),
            json!(1.5),
            json!("text €"),
            json!([1, "a", [false, null]]),
            json!({"a": {"b": [1, 2]}}),
        ] {
            let amqp = to_amqp(&value);
            assert_eq!(amqp.as_ref().map(value_to_json), Some(value));
        }
        assert!(to_amqp(&json!(u64::MAX)).is_none());
        assert!(to_amqp(&json!({"k".repeat(300): 1})).is_none());
    }
}
