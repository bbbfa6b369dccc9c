//! The command line.

use crate::broker::Kind;

/// What the user asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A run.
    Run(Args),
    /// How to ask.
    Help,
}

/// What a run is like.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    /// How many orders are placed.
    pub(crate) orders: usize,
    /// What carries the events from one service to the other.
    pub(crate) broker: Kind,
    /// Leave databases, queues and logs in place when the run fails.
    pub(crate) keep: bool,
}

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
usage: demo [--orders N] [--broker rabbitmq|database] [--keep]

  --orders N         how many orders are placed: 20 to 100000 (default 200)
  --broker rabbitmq  each service has a database of its own, and RabbitMQ is between them (default)
  --broker database  both services share one database, which is the broker, too; RabbitMQ is not used
  --keep             when the run fails, leave databases, queues and logs for inspection
  --help             print this

DATABASE_URL  a PostgreSQL server where databases may be created; default: the standard local port
AMQP_URL      a RabbitMQ server, for --broker rabbitmq; default: amqp://guest:guest@127.0.0.1:5672/%2f";

impl Args {
    /// Reads the arguments after the program's name; the error is what to show.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked, String> {
        let mut args = Self { orders: 200, broker: Kind::RabbitMq, keep: false };
        let wrong = |text: String| format!("{text}\n\n{USAGE}");
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--keep" => args.keep = true,
                "--orders" => {
                    let orders = arguments.next().and_then(|text| text.parse().ok());
                    // With fewer there may be no moment at which a service has work in flight.
                    args.orders = orders
                        .filter(|orders| (20..=100_000).contains(orders))
                        .ok_or_else(|| wrong("--orders takes a number from 20 to 100000".to_owned()))?;
                }
                "--broker" => {
                    args.broker = match arguments.next().as_deref() {
                        Some("rabbitmq") => Kind::RabbitMq,
                        Some("database") => Kind::Database,
                        Some(other) => {
                            return Err(wrong(format!("--broker takes `rabbitmq` or `database`, not {other:?}")));
                        }
                        None => return Err(wrong("--broker takes `rabbitmq` or `database`".to_owned())),
                    };
                }
                "--help" | "-h" => return Ok(Asked::Help),
                other => return Err(wrong(format!("unknown argument {other:?}"))),
            }
        }
        Ok(Asked::Run(args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Asked, String> {
        Args::parse(arguments.iter().map(|text| (*text).to_owned()))
    }

    #[test]
    fn arguments_are_read_or_explained() {
        let run = |orders, broker, keep| Ok(Asked::Run(Args { orders, broker, keep }));
        assert_eq!(parse(&[]), run(200, Kind::RabbitMq, false));
        assert_eq!(parse(&["--keep", "--orders", "50"]), run(50, Kind::RabbitMq, true));
        assert_eq!(parse(&["--broker", "database"]), run(200, Kind::Database, false));
        assert_eq!(parse(&["--broker", "database", "--broker", "rabbitmq"]), run(200, Kind::RabbitMq, false));
        assert_eq!(parse(&["--orders", "50", "-h"]), Ok(Asked::Help));
        for wrong in [
            &["--orders"][..],
            &["--orders", "x"],
            &["--orders", "0"],
            &["--order", "5"],
            &["--broker"],
            &["--broker", "kafka"],
            &["database"],
        ] {
            assert!(parse(wrong).is_err_and(|text| text.contains("usage: demo")), "{wrong:?}");
        }
    }
}
