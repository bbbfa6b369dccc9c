//! The start-up table: what runs here, and where it stands in the source.

use crate::consumer::plan::ConsumerPlan;

/// One line for each handler, in columns.
pub(crate) fn table(plans: &[ConsumerPlan]) -> String {
    let head = ["event", "exchange", "consumer", "queue", "handler", "at"].map(str::to_owned);
    let mut rows = vec![head];
    for plan in plans {
        let mut handlers: Vec<_> = plan.handlers.values().map(|handler| handler.descriptor).collect();
        handlers.sort_by_key(|handler| handler.event.name);
        for handler in handlers {
            rows.push([
                format!("{} v{}", handler.event.name, handler.event.version),
                handler.event.exchange.to_owned(),
                plan.name.clone(),
                plan.queue.clone(),
                format!("{}::{}", handler.module, handler.name),
                handler.place(),
            ]);
        }
    }
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let lines = rows.iter().map(|row| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
