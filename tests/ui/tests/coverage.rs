//! Every rule has a case. The rules are read from the macros' sources, so that a rule that is added without a case fails here.

mod sources;

use std::fs;

use crate::sources::{Template, fail_dir, files, macros_dir, runtime_dir};

/// What the compiler said of every mistake.
fn said() -> Vec<String> {
    let mut said = Vec::new();
    for file in files(&fail_dir(), "stderr") {
        for line in fs::read_to_string(file).unwrap_or_default().lines() {
            said.push(line.to_owned());
        }
    }
    assert!(said.len() > 100, "the cases are not where they were");
    said
}

#[track_caller]
fn assert_all_said(templates: &[Template], before: &[&str]) {
    let said = said();
    let missing: Vec<String> = templates
        .iter()
        .filter(|template| !said.iter().any(|line| template.matches(line, before)))
        .map(|template| format!("{}: {}", template.name, template.text))
        .collect();
    assert!(missing.is_empty(), "no case in `fail/` for\n  {}", missing.join("\n  "));
}

/// The tables `rules! { .. }`: one for each macro, and what they share.
#[test]
fn each_rule_has_a_case() {
    let rules: Vec<Template> = files(&macros_dir(), "rs").iter().flat_map(|file| sources::rules(file)).collect();
    assert!(rules.len() > 40, "the tables are not read: {} rules", rules.len());
    assert_all_said(&rules, &["error: "]);
}

/// No error goes past the tables.
#[test]
fn errors_are_made_by_rules_alone() {
    let elsewhere: Vec<String> = files(&macros_dir(), "rs")
        .iter()
        .filter(|file| !file.ends_with("common/rules.rs"))
        .filter(|file| {
            let text = fs::read_to_string(file).unwrap_or_default();
            ["Error::new", "new_spanned", "compile_error!{", "compile_error!(", "panic!("]
                .iter()
                .any(|way| text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(way)))
        })
        .map(|file| file.display().to_string())
        .collect();
    assert!(elsewhere.is_empty(), "make these errors by a rule: {elsewhere:?}");
}

/// The bounds that expansions add: each of their traits says what it wants, and a case shows it.
#[test]
fn each_bound_has_a_case() {
    // Not asked for by an expansion: the first needs a database without its feature, the second is seen as `IntoOutcome`.
    let others = ["Store", "IntoEvents"];
    let bounds: Vec<Template> = files(&runtime_dir(), "rs")
        .iter()
        .flat_map(|file| sources::bounds(file))
        .filter(|bound| !others.contains(&bound.name.as_str()))
        .collect();
    assert!(bounds.len() >= 8, "the bounds are not read: {} of them", bounds.len());
    assert_all_said(&bounds, &["error[E0277]: "]);
}

/// The checks of constants, which generated code makes.
#[test]
fn each_check_of_a_constant_has_a_case() {
    let checks: Vec<Template> = ["private.rs", "handler/descriptor.rs"]
        .iter()
        .flat_map(|file| sources::panics(&runtime_dir().join(file)))
        .collect();
    assert!(checks.len() >= 5, "the checks are not read: {} of them", checks.len());
    assert_all_said(&checks, &["error[E0080]: evaluation panicked: "]);
}

/// A `.stderr` whose case is gone would still count.
#[test]
fn each_expectation_belongs_to_a_case() {
    for file in files(&fail_dir(), "stderr") {
        assert!(file.with_extension("rs").exists(), "{} has no case", file.display());
    }
}

/// The macros check literals with the runtime's own grammar of names: the file is a copy, since neither package can contain the other's.
#[test]
fn the_grammar_of_names_is_the_same_in_both_packages() {
    let [ours, theirs] = [macros_dir().join("name.rs"), runtime_dir().join("event/name.rs")].map(fs::read_to_string);
    assert!(ours.ok() == theirs.ok(), "copy outbox-runtime/src/event/name.rs to outbox-macros/src/name.rs");
}
