use std::net::SocketAddr;

/// The reason why a server could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {}", beamgen_files::reason(source))]
    Bind {
        /// The address of [`ServeOptions`](crate::ServeOptions).
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The limit of connections is larger than a semaphore can count.
    #[error("{asked} connections are too many: use at most {most}")]
    Connections {
        /// The limit in [`Limits`](crate::Limits).
        asked: usize,
        /// The largest possible limit.
        most: usize,
    },
    /// Pages of every origin are allowed, and the options have no key.
    #[error("the origin * lets every web page in, and no key is set")]
    EveryOrigin,
    /// Other machines can reach the address, and the options have no key.
    #[error("{address} can be reached from other machines, and no key is set")]
    Open {
        /// The address of [`ServeOptions`](crate::ServeOptions).
        address: SocketAddr,
    },
    /// A file of presets is invalid.
    #[error("{place}: {reason}")]
    Presets {
        /// The file, and the preset in it if one is at fault.
        place: String,
        /// The fault in words.
        reason: String,
    },
    /// The operating system gives no thread or timer to run on.
    #[error("the server cannot run: {}", beamgen_files::reason(.0))]
    Runtime(std::io::Error),
    /// A model was lost, so the server ended.
    #[error(transparent)]
    Lost(#[from] beamgen::Error),
}
