//! The arguments of `beamgen serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::{SearchFlags, texts};

/// Serve HTTP requests
#[derive(Args, Debug)]
#[command(after_help = texts::SHORT, after_long_help = texts::SERVE)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServeArgs {
    /// The port; 0 is a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub port: u16,
    /// The address to listen on
    ///
    /// Other machines reach every address but loopback ones, so such an address needs a key.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        value_parser = host
    )]
    pub host: IpAddr,
    /// Read the keys that let clients in, one a line
    ///
    /// Without it the environment variable `BEAMGEN_API_KEY` may have one.
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Let everybody in who reaches the address
    ///
    /// Without it, an address that other machines reach needs a key.
    #[arg(long, hide_short_help = true)]
    pub allow_anyone: bool,
    /// A name that clients may call this server by
    ///
    /// localhost and addresses need none. May be repeated. A reverse proxy's name belongs here.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub host_name: Vec<String>,
    /// Read what `model` may be from a TOML file
    ///
    /// [default: configs/serve/presets.toml, which is in the binary]
    #[arg(long, value_name = "FILE")]
    pub presets: Option<PathBuf>,
    /// Requests that may wait; more are told to come back
    #[arg(long, value_name = "REQUESTS", default_value_t = 256)]
    pub queue: usize,
    /// Connections open at once
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1024,
        hide_short_help = true
    )]
    pub connections: usize,
    /// Token limit of one request: chains times tokens of a chain
    #[arg(
        long = "max-request-tokens",
        value_name = "TOKENS",
        default_value_t = 1 << 20,
        hide_short_help = true
    )]
    pub max_tokens: usize,
    /// Seconds after which a search ends with what it has
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600,
        hide_short_help = true
    )]
    pub deadline: u64,
    /// Seconds for what is at work when the server is told to stop
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        hide_short_help = true
    )]
    pub drain_seconds: u64,
    /// Show the effective settings, and a line for each request, on stderr
    #[arg(short, long, hide_short_help = true)]
    pub verbose: bool,

    #[command(flatten)]
    pub settings: SearchFlags,
}

/// An address; the one name that always is one is taken, too.
fn host(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        text => text
            .parse()
            .map_err(|_| "write an address such as 127.0.0.1, 0.0.0.0 or ::1".to_owned()),
    }
}
