// What all binaries do: it is included, since a module of the library would name the library.

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "it is what the test reads")]
fn main() {
    use outbox::__private::Registration::{Consumer, Event, Handler};
    use std::task::{Context, Poll, Waker};

    let mut names: Vec<String> = outbox::__private::linked()
        .iter()
        .map(|linked| match linked {
            Event(event) => format!("event {}", event.name),
            Handler(handler) => format!("handler {}::{}", handler.module, handler.name),
            Consumer(consumer) => format!("consumer {}", consumer.name),
        })
        .collect();
    names.sort();
    println!("{}", names.join("\n"));

    // A build without a database cannot start; it says at once all that is wrong, and waits for nothing.
    let start = std::pin::pin!(outbox::Runtime::builder().start());
    if let Poll::Ready(Err(error)) = start.poll(&mut Context::from_waker(Waker::noop())) {
        eprintln!("{error}");
    }
}
