// What all binaries do: it is included, since a module of the library would name the library.

#[allow(clippy::print_stdout, reason = "it is what the test reads")]
fn main() {
    let mut names: Vec<String> = outbox::__private::linked().iter().map(|linked| match linked {
        outbox::__private::Registration::Event(event) => format!("event {}", event.name),
        outbox::__private::Registration::Handler(handler) => format!("handler {}::{}", handler.module, handler.name),
        outbox::__private::Registration::Consumer(consumer) => format!("consumer {}", consumer.name),
    }).collect();
    names.sort();
    println!("{}", names.join("\n"));
}
