//! Reads rules out of source files, as tokens.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn fail_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fail")
}

pub(crate) fn macros_dir() -> PathBuf {
    root().join("outbox-macros/src")
}

pub(crate) fn runtime_dir() -> PathBuf {
    root().join("outbox-runtime/src")
}

/// The files with this ending, in all folders.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A message with places for values.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Template {
    /// Whether `line` is one of `before` and then this message.
    pub(crate) fn matches(&self, line: &str, before: &[&str]) -> bool {
        before.iter().filter_map(|before| line.strip_prefix(before)).any(|mut rest| {
            let parts = self.parts();
            let last = parts.len() - 1;
            parts.iter().enumerate().all(|(index, part)| {
                let at = if index == 0 {
                    rest.starts_with(part.as_str()).then_some(0)
                } else if index == last {
                    rest.ends_with(part.as_str()).then(|| rest.len() - part.len())
                } else {
                    rest.find(part.as_str())
                };
                at.map(|at| rest = &rest[at + part.len()..]).is_some()
            }) && rest.is_empty()
        })
    }

    /// The text between the places.
    fn parts(&self) -> Vec<String> {
        let text = self.text.replace("{{", "\u{1}").replace("}}", "\u{2}");
        let mut parts: Vec<&str> = Vec::new();
        for (index, piece) in text.split('{').enumerate() {
            parts.push(if index == 0 { piece } else { piece.split_once('}').map_or("", |(_, rest)| rest) });
        }
        parts.iter().map(|part| part.replace('\u{1}', "{").replace('\u{2}', "}")).collect()
    }
}

fn tokens(file: &Path) -> Vec<TokenTree> {
    let text = fs::read_to_string(file).unwrap_or_default();
    TokenStream::from_str(&text).map(|tokens| tokens.into_iter().collect()).unwrap_or_default()
}

fn inner(token: &TokenTree) -> Vec<TokenTree> {
    match token {
        TokenTree::Group(group) => group.stream().into_iter().collect(),
        _ => Vec::new(),
    }
}

fn is(token: &TokenTree, text: &str) -> bool {
    token.to_string() == text
}

/// The value of a string literal.
fn string(token: &TokenTree) -> Option<String> {
    let text = token.to_string();
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// All token lists of a file, groups within groups.
fn lists(list: Vec<TokenTree>, into: &mut Vec<Vec<TokenTree>>) {
    for token in &list {
        if let TokenTree::Group(_) = token {
            lists(inner(token), into);
        }
    }
    into.push(list);
}

fn all_lists(file: &Path) -> Vec<Vec<TokenTree>> {
    let mut all = Vec::new();
    lists(tokens(file), &mut all);
    all
}

/// `rules! { name(..) = "text"; }`
pub(crate) fn rules(file: &Path) -> Vec<Template> {
    let mut found = Vec::new();
    for list in all_lists(file) {
        for window in list.windows(3) {
            if is(&window[0], "rules") && is(&window[1], "!") {
                for rule in inner(&window[2]).windows(4) {
                    if let (TokenTree::Ident(name), TokenTree::Group(_), true, Some(text)) =
                        (&rule[0], &rule[1], is(&rule[2], "="), string(&rule[3]))
                    {
                        found.push(Template { name: name.to_string(), text });
                    }
                }
            }
        }
    }
    found
}

/// `#[diagnostic::on_unimplemented(message = "text", ..)] pub trait Name`
pub(crate) fn bounds(file: &Path) -> Vec<Template> {
    let mut found = Vec::new();
    for list in all_lists(file) {
        let mut message = None;
        for window in list.windows(2) {
            let attribute = inner(&window[1]);
            if is(&window[0], "#") && attribute.iter().any(|token| is(token, "on_unimplemented")) {
                message = attribute.last().map(inner).and_then(|arguments| {
                    arguments.windows(3).find(|three| is(&three[0], "message")).and_then(|three| string(&three[2]))
                });
            } else if is(&window[0], "trait")
                && let Some(text) = message.take()
            {
                found.push(Template { name: window[1].to_string(), text });
            }
        }
    }
    found
}

/// `panic!("text")`
pub(crate) fn panics(file: &Path) -> Vec<Template> {
    let mut found = Vec::new();
    for list in all_lists(file) {
        for window in list.windows(3) {
            if is(&window[0], "panic")
                && is(&window[1], "!")
                && let Some(text) = inner(&window[2]).first().and_then(string)
            {
                found.push(Template { name: "a constant".to_owned(), text });
            }
        }
    }
    found
}
