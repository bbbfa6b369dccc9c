fn main() {
    let _ = outbox::Runtime::builder().on_alert(|alert: outbox::Alert| async move { alert.to_string().len() });
}
