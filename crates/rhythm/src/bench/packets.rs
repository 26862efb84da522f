//! `rhythm bench packets`: datagrams that are sent and counted, for `rhythm reproduce venice`.

use crate::output::print_line;
use anyhow::Result;
use rhythm_bench::packets;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Send datagrams as fast as they go, or count those that arrive.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    end: End,
}

#[derive(Debug, clap::Subcommand)]
enum End {
    /// Send to each place, by a thread each
    Send {
        /// Where to
        #[arg(required = true, value_name = "ADDR:PORT")]
        places: Vec<SocketAddr>,

        /// Bytes of a datagram
        #[arg(long, value_name = "N", default_value_t = 256)]
        #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new()
              .range(1..=packets::BYTES_MAX as u64))]
        bytes: usize,

        /// For how long
        #[arg(long = "for", value_name = "MILLISECONDS", default_value_t = 1000)]
        time: u64,
    },
    /// Say when it is ready, and then, as JSON, what arrived
    Receive {
        /// Where
        #[arg(required = true, value_name = "ADDR:PORT")]
        places: Vec<SocketAddr>,

        /// For how long, from a moment after the first
        #[arg(long = "for", value_name = "MILLISECONDS", default_value_t = 500)]
        time: u64,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.end {
        End::Send {
            places,
            bytes,
            time,
        } => {
            let sent = packets::send(places, *bytes, Duration::from_millis(*time))?;
            print_line(format_args!("{sent} sent"))?;
        }
        End::Receive { places, time } => {
            let ready = || print_line("ready").map_err(io::Error::other);
            let received = packets::receive(places, Duration::from_millis(*time), ready)?;
            print_line(serde_json::to_string(&received)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
