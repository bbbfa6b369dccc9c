//! What the pages in `docs` say is so: their Rust is compiled (`documents` of the harness), their statements run, their variables exist.

use std::path::{Path, PathBuf};

use outbox::Role;
use outbox_it::{Logs, TestDatabase};
use sqlx::{AssertSqlSafe, Sqlite};

use crate::matrix::place::{BrokerKind, Place};
use crate::world::World;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect(path)
}

/// The code blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    let page = text(page);
    page.split(&fence).skip(1).map(|block| block.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

/// A block that is ignored is one that nobody keeps right.
#[test]
fn every_block_of_rust_is_compiled() {
    let compiled = text("tests/it/src/documents.rs");
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        let page = text(&format!("docs/{name}"));
        assert!(
            !page.contains("```rust,ignore") && !page.contains("```ignore"),
            "{name} has a block that is not compiled"
        );
        if page.contains("```rust") {
            assert!(compiled.contains(&format!("docs/{name}")), "{name} is missing in tests/it/src/documents.rs");
        }
    }
    assert!(!text("README.md").contains("```rust,ignore"));
}

/// Every variable that is read stands in the table, and the other way round.
#[test]
fn the_table_of_variables_is_complete() {
    let code = text("outbox-runtime/src/runtime/env.rs");
    let mut read: Vec<&str> = code.split("text(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let page = text("docs/operations.md");
    let table = page.split("| variable |").nth(1).expect("the table").split("\n\n").next().unwrap();
    let mut told: Vec<&str> = table.split("\n| `").skip(1).filter_map(|row| row.split('`').next()).collect();
    read.sort_unstable();
    told.sort_unstable();
    assert!(!read.is_empty());
    assert_eq!(read, told);
}

/// Links inside and between the pages lead somewhere.
#[test]
fn links_between_the_pages_lead_to_a_heading() {
    let anchor = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_')
            .collect::<String>()
            .replace(' ', "-")
    };
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "docs/guarantees.md",
        "docs/handlers.md",
        "docs/operations.md",
        "docs/producing.md",
    ];
    let mut links = 0;
    for page in pages {
        let folder = Path::new(page).parent().unwrap().to_owned();
        for link in text(page).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { PathBuf::from(page) } else { folder.join(file) };
            assert!(root().join(&file).exists(), "{page} links to {link}");
            if !heading.is_empty() {
                let target = text(file.to_str().unwrap());
                let found = target.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
                assert!(found, "{page} links to {link}, which is no heading of {}", file.display());
            }
        }
    }
    assert!(links > 30, "{links} links were found");
}

/// What an operator looks at by SQL: each query of the page runs, and the one for blocked keys names the event that the others wait for.
#[tokio::test(flavor = "multi_thread")]
async fn the_queries_for_an_operator_run() {
    const LINE: [&str; 3] = [
        "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes, status, last_error)
         VALUES ('head', 'account', 'A-1', 1, 't', 'e', 'k', '{}', 2, 'Failed', 'refused')",
        "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes)
         VALUES ('next', 'account', 'A-1', 2, 't', 'e', 'k', '{}', 2)",
        "INSERT INTO outbox_messages (event_id, aggregate_type, aggregate_id, sequence, event_type, exchange, routing_key, payload, payload_bytes, status, last_error)
         VALUES ('alone', 'account', 'B-1', 1, 't', 'e', 'k', '{}', 2, 'Failed', 'refused')",
    ];
    let queries: Vec<String> =
        blocks("docs/operations.md", "sql").into_iter().filter(|block| block.starts_with("SELECT")).collect();
    let waited_for = queries.iter().find(|query| query.contains("AS later")).expect("the query");
    let line = queries.iter().find(|query| query.starts_with("SELECT sequence")).expect("the query");

    let db = TestDatabase::new().await;
    crate::world::prepare(&db).await;
    for insert in LINE {
        db.execute(insert).await;
    }
    for statement in queries.iter().flat_map(|block| block.split_inclusive(';')).filter(|sql| !sql.trim().is_empty()) {
        sqlx::query(AssertSqlSafe(statement.to_owned())).fetch_all(db.pool()).await.expect(statement);
    }
    let count = |query: &str, what: &str| format!("SELECT {what} FROM ({}) AS q", query.trim_end_matches(';'));
    assert_eq!(db.number(&count(waited_for, "count(*)")).await, 1);
    assert_eq!(db.number(&format!("{} WHERE event_id = 'head'", count(waited_for, "count(*)"))).await, 1);
    assert_eq!(db.number(&count(line, "count(*)")).await, 2);

    let place = Place::<Sqlite>::new(BrokerKind::Database, "docs").await;
    for insert in LINE {
        place.execute(insert).await;
    }
    assert_eq!(place.texts(&count(waited_for, "event_id")).await, ["head"]);
    assert_eq!(place.number(&count(line, "count(*)")).await, 2);
}

/// S7: what the settings come to is said at start, and so is what disagrees without being wrong.
#[tokio::test(flavor = "multi_thread")]
async fn the_start_says_what_the_settings_come_to() {
    let world = World::new().await;
    let logs = Logs::capture();
    let runtime =
        world.runtime([]).role(Role::Relay).shutdown_timeout(std::time::Duration::from_secs(8)).start().await.unwrap();
    logs.assert_present(&["is taken over within 62.1 s (lease 60 s + sweep 2 s + poll 100 ms)", "INFO"]);
    logs.assert_present(&["a shutdown of 8 s leaves batches 6 s, and their confirms may take 30 s", "WARN"]);
    runtime.shutdown().await;
}
