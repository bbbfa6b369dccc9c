//! The command line.

/// What the user asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    /// How many orders are placed.
    pub(crate) orders: usize,
    /// Leave databases, queues and logs in place when the run fails.
    pub(crate) keep: bool,
}

const USAGE: &str = "\
usage: demo [--orders N] [--keep]

  --orders N   how many orders are placed: 20 to 100000 (default 200)
  --keep       when the run fails, leave databases, queues and logs for inspection

DATABASE_URL  a PostgreSQL server where databases may be created; default: the standard local port
AMQP_URL      a RabbitMQ server; default: amqp://guest:guest@127.0.0.1:5672/%2f";

impl Args {
    /// Reads the arguments after the program's name; the error is what to show.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self { orders: 200, keep: false };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--keep" => args.keep = true,
                "--orders" => {
                    let orders = arguments.next().and_then(|text| text.parse().ok());
                    // With fewer there may be no moment at which a service has work in flight.
                    args.orders = orders
                        .filter(|orders| (20..=100_000).contains(orders))
                        .ok_or_else(|| format!("--orders takes a number from 20 to 100000\n\n{USAGE}"))?;
                }
                "--help" | "-h" => return Err(USAGE.to_owned()),
                other => return Err(format!("unknown argument {other:?}\n\n{USAGE}")),
            }
        }
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Args, String> {
        Args::parse(arguments.iter().map(|text| (*text).to_owned()))
    }

    #[test]
    fn arguments_are_read_or_explained() {
        assert_eq!(parse(&[]), Ok(Args { orders: 200, keep: false }));
        assert_eq!(parse(&["--keep", "--orders", "50"]), Ok(Args { orders: 50, keep: true }));
        for wrong in [&["--orders"][..], &["--orders", "x"], &["--orders", "0"], &["--order", "5"], &["-h"]] {
            assert!(parse(wrong).is_err_and(|text| text.contains("usage: demo")), "{wrong:?}");
        }
    }
}
