//! The arguments of `beamgen serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{SearchFlags, texts};

/// The form of messages on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// lines for people
    Text,
    /// a JSON object a line, with one for each request
    Json,
}

/// Serve HTTP requests
#[derive(Args, Debug)]
#[command(after_help = texts::SHORT, after_long_help = texts::SERVE)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServeArgs {
    /// Port to listen on; 0 takes a free port
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub port: u16,
    /// Address to listen on
    ///
    /// An address that other machines can reach (any but a loopback address) requires a key.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        value_parser = host
    )]
    pub host: IpAddr,
    /// Read API keys from this file, one a line
    ///
    /// Without this flag, the environment variable `BEAMGEN_API_KEY` may hold a key.
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Allow requests without a key on any address
    ///
    /// Without this flag, an address that other machines can reach requires a key.
    #[arg(long, hide_short_help = true)]
    pub allow_anyone: bool,
    /// Accept requests whose Host header has this name, e.g. a reverse proxy's
    ///
    /// localhost and addresses are always accepted. May be repeated.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub host_name: Vec<String>,
    /// Let web pages of this origin use the server, e.g. `https://app.example`
    ///
    /// Scheme, host and, unless it is the usual one, port. `*` stands for every page and requires a key. May be repeated.
    #[arg(long, value_name = "ORIGIN", hide_short_help = true)]
    pub allow_origin: Vec<String>,
    /// Read presets, the values of a request's `model`, from a TOML file
    ///
    /// [default: configs/serve/presets.toml, which is in the binary]
    #[arg(long, value_name = "FILE")]
    pub presets: Option<PathBuf>,
    /// Requests that may wait; further requests get status 429
    #[arg(long, value_name = "REQUESTS", default_value_t = 256)]
    pub queue: usize,
    /// Most connections open at the same time
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1024,
        hide_short_help = true
    )]
    pub connections: usize,
    /// Token limit of a request: chains times tokens per chain
    #[arg(
        long = "max-request-tokens",
        value_name = "TOKENS",
        default_value_t = 1 << 20,
        hide_short_help = true
    )]
    pub max_tokens: usize,
    /// Seconds after which a search returns its partial result
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600,
        hide_short_help = true
    )]
    pub deadline: u64,
    /// Seconds that running requests may take after a signal to stop
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        hide_short_help = true
    )]
    pub drain_seconds: u64,
    /// Measure how far answers drift from those of a calibration made with --runs, in the metrics
    ///
    /// A preset is compared with the runs that have its settings and these models.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub reference: Option<PathBuf>,
    /// Repeat this share of searches without the reward model, and count answers that differ, 0 to 1
    ///
    /// The repeated search samples as many chains and votes. It waits for nobody: while requests wait, nothing is
    /// repeated.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        hide_short_help = true
    )]
    pub shadow_share: f64,
    /// Print the effective settings, and a line for each request, to stderr
    #[arg(short, long, hide_short_help = true)]
    pub verbose: bool,
    /// Form of the messages on stderr
    #[arg(
        long,
        value_name = "FORM",
        default_value = "text",
        hide_short_help = true
    )]
    pub log_format: LogFormat,

    #[command(flatten)]
    pub settings: SearchFlags,
}

/// Parses an IP address. The name `localhost` stands for 127.0.0.1.
fn host(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        text => text
            .parse()
            .map_err(|_| "not an IP address: use e.g. 127.0.0.1, 0.0.0.0 or ::1".to_owned()),
    }
}
