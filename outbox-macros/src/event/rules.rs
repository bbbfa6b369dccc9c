//! The rules of `#[event]`.

rules! {
    item_kind() = "`#[event]` belongs on a struct or an enum";
    event_twice() = "a type is one event: this one has `#[event]` twice";
    union_item(name) = "a union has no serialized form: make `{name}` a struct or an enum";
    generics(name) = "an event has no generic parameters, since `{name}` is one type with one name on the wire";
    name_missing() = "`#[event]` needs the event's name: `name = \"order.created\"`";
    key_unknown(key, owner, hint, known) = "{owner} has no field `{key}`{hint}; it has {known}";
    key_unnamed(owner) = "`key` names a field, and {owner} has none with a name: give its fields names";
    ordered_unkeyed() = "`ordered` keeps the order among the events of one key: say which field it is, such as `key = order_id`";
    on_failed_unordered() = "`on_failed` says whether the later events of the key wait for one that failed, and only events with `ordered` wait: add `ordered`, or leave `on_failed` out";
    backoff_long(high) = "a pause of \"{high}\" between two attempts is longer than a week: a backoff is at most \"168h\"";
    flat_tuple(name) = "`{name}` is a tuple struct, which serde does not write as a JSON object: use `envelope = \"versioned\"`, or name its fields";
    flat_unit(name) = "`{name}` is a unit struct, which serde writes as `null`: use `envelope = \"versioned\"`, or write `struct {name} {{}}`";
    flat_transparent(name) = "`#[serde(transparent)]` writes `{name}` as the value of its field, which need not be a JSON object: use `envelope = \"versioned\"`";
    flat_untagged(variant) = "`#[serde(untagged)]` writes `{variant}` as its content, which need not be a JSON object: use `envelope = \"versioned\"`";
    flat_enum(name) = "serde writes the variants of `{name}` as text or under their own names, not as one kind of JSON object: use `envelope = \"versioned\"`, or `#[serde(tag = \"type\")]` on the enum";
    flat_collision(what, name) = "{what} is written as `{name}`, which the flat envelope needs for itself: rename it, or use `envelope = \"versioned\"`";
}
