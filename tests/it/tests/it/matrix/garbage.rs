//! Messages that make no sense: kept, told, and in nobody's way (C6, C8, S7).

use std::time::Duration;

use super::messages::Foreign;
use crate::scripted::{Script, quick};

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02X}")).collect()
}

matrix! {
    /// C6, C8: each kind is Dead at once with its reason and its body, byte for byte; the good ones beside it are handled.
    async fn what_cannot_be_handled_is_dead_with_its_reason_and_its_body(place) {
        let script = Script::done();
        let runtime = place.scripted(&script, quick()).start().await.unwrap();
        place.deliver("matrix-scripted", Foreign::order(1, "first")).await;
        place.becomes("first", "Processed").await;
        let fields = r#""order_id":"x","quantity":1"#;
        let garbage = [
            (
                "undecodable",
                Foreign {
                    body: r#"{"eventId":"g1","order_id":"x","quantity":"199.00"}"#.into(),
                    ..Foreign::order(2, "g1")
                },
            ),
            ("undecodable", Foreign { body: r#"{"eventId":"g2" , "other":199.00}"#.into(), ..Foreign::order(2, "g2") }),
            ("undecodable", Foreign { body: "[]".into(), ..Foreign::order(2, "g3") }),
            ("unknown event", Foreign { event_type: "order.eaten", ..Foreign::order(2, "g4") }),
            ("unknown version", Foreign { version: 7, ..Foreign::order(2, "g5") }),
            ("no id", Foreign { body: format!("{{{fields}}}"), ..Foreign::order(2, "") }),
            ("ids disagree", Foreign { event_id: "g7", ..Foreign::order(2, "another") }),
            ("bad id", Foreign { body: format!("{{ {fields}}}"), ..Foreign::order(2, "a\nb") }),
            ("id reused", Foreign::order(3, "first")),
        ];
        let mut want: Vec<(&str, String)> = Vec::new();
        for (reason, message) in garbage {
            want.push((reason, hex(&message.body)));
            place.deliver("matrix-scripted", message).await;
        }
        place.enqueue(10, 20).await;
        place.settled(11).await;
        place.rows_become("parked_messages", "status = 'Dead'", want.len()).await;
        let rows = place.parked().await;
        let mut got: Vec<(&str, String)> = rows.iter().map(|row| (row.reason.as_str(), row.body_hex.clone())).collect();
        assert!(rows.iter().all(|row| row.attempts == "0" || row.attempts == "1"), "{rows:?}");
        assert!(
            rows.iter().all(|row| !row.error.is_empty() && !row.error.contains("199.00")),
            "no values in errors: {rows:?}"
        );
        want.sort();
        got.sort();
        assert_eq!(got, want);
        assert_eq!(script.runs().len(), 11, "no garbage reached the handler");
        assert_eq!(place.inbox_state("first").await, "Processed", "its record is as it was");
        runtime.shutdown().await;
    }

    /// S7, F61: below the floor a message without a record is for a person, one with a record is a copy; above it all is as ever.
    async fn a_message_older_than_the_dedup_window_is_never_run_on_its_own(place) {
        let script = Script::done();
        // The window of the runtime is out of the way: the floor is the test's own.
        let window = Duration::from_secs(20 * 365 * 86_400);
        let runtime = place.scripted(&script, quick()).dedup_window(window).start().await.unwrap();
        let old = |n, id, at| Foreign { enqueued_at: Some(at), ..Foreign::order(n, id) };
        place.deliver("matrix-scripted", old(1, "known", "2020-01-01T00:00:00Z")).await;
        place.becomes("known", "Processed").await;
        place.execute(&format!(
            "INSERT INTO inbox_floors (consumer, floor) VALUES ('matrix-scripted', {}) ON CONFLICT (consumer) DO UPDATE SET floor = excluded.floor",
            S::time("2021-01-01T00:00:00Z")
        )).await;
        place.deliver("matrix-scripted", old(1, "known", "2020-01-01T00:00:00Z")).await;
        place.deliver("matrix-scripted", old(2, "unknown", "2020-12-31T23:59:59Z")).await;
        place.deliver("matrix-scripted", old(3, "above", "2021-01-01T00:00:01Z")).await;
        place.settled(2).await;
        place.rows_become("parked_messages", "1 = 1", 1).await;
        let row = place.parked().await.remove(0);
        assert_eq!(
            (row.event_id.as_str(), row.status.as_str(), row.reason.as_str()),
            ("unknown", "Dead", "older than the dedup window")
        );
        assert_eq!(row.body_hex, hex(&Foreign::order(2, "unknown").body));
        assert_eq!(
            (place.inbox_state("unknown").await.as_str(), script.runs_of(2).len(), script.runs().len()),
            ("", 0, 2)
        );
        runtime.shutdown().await;
    }
}
