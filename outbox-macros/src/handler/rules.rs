//! The rules of `#[handler]`.

rules! {
    item_kind() = "`#[handler]` belongs on a free async function";
    consumer_missing() = "`#[handler]` needs the consumer that it belongs to: `consumer = \"inventory\"`";
    not_async(name) = "a handler is asynchronous: write `async fn {name}`";
    method() = "a handler is a free function: a method has no registered `self` to be called on; take `State<T>` instead";
    generics(name) = "a handler has no type or constant parameters, since `{name}` is registered once: write the types out";
    impl_trait() = "a handler names its types, since `impl Trait` is a type parameter: write the type out";
    const_fn() = "a handler cannot be `const`";
    unsafe_fn() = "a handler cannot be `unsafe`: the runtime calls it and can promise nothing";
    extern_fn() = "a handler cannot be `extern`: the runtime calls it as a Rust function";
    event_missing() = "a handler's first argument is its event: `async fn handle(order: OrderCreated)`";
    event_first() = "a handler's first argument is its event, by value; what it takes by `&mut` comes after";
    event_by_reference(ty) = "a handler takes its event by value: write `{ty}`";
    shared_reference(ty) = "a handler takes nothing by `&`: write `{ty}` to take it by value; the connection, the transaction and `Emit` go by `&mut`";
    database_twice() = "a handler takes the connection or the transaction once: both are the same one";
    emit_twice() = "a handler takes `&mut Emit` once";
    output_missing() = "a handler says whether it succeeded: write a return type, `-> Result<(), E>`";
}
