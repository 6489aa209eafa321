use std::net::SocketAddr;

/// Why a server could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {}", beamgen_files::reason(source))]
    Bind {
        /// What was asked for.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// More connections than can be counted.
    #[error("{asked} connections are more than can be counted: at most {most} are taken")]
    Connections {
        /// The connections that were asked for.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// Other machines reach the address, and there is no key.
    #[error(
        "{address} can be reached from other machines, and there is no key to keep strangers out"
    )]
    Open {
        /// What was asked for.
        address: SocketAddr,
    },
    /// A file of presets is wrong.
    #[error("{place}: {reason}")]
    Presets {
        /// The file, and the preset in it if one is at fault.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// There is no thread or timer to run on.
    #[error("the server cannot run: {}", beamgen_files::reason(.0))]
    Runtime(std::io::Error),
    /// A model was lost, and the server with it.
    #[error(transparent)]
    Lost(#[from] beamgen::Error),
}
