use std::net::SocketAddr;

/// The reason why a server did not start, or why it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be bound, for example because its port is in use.
    #[error("cannot listen on {address}: {}", beamgen_files::reason(source))]
    Bind {
        /// The address to listen on, from [`ServeOptions`](crate::ServeOptions).
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The limit of connections exceeds what the runtime's semaphore can count.
    #[error("{asked} connections are too many: use at most {most}")]
    Connections {
        /// The limit of connections in [`Limits`](crate::Limits).
        asked: usize,
        /// The highest limit that the semaphore can count.
        most: usize,
    },
    /// Pages of every origin are allowed, but no key is set.
    #[error("the origin * lets every web page in, and no key is set")]
    EveryOrigin,
    /// Other machines can reach the address, but no key is set.
    #[error("{address} can be reached from other machines, and no key is set")]
    Open {
        /// The address to listen on, from [`ServeOptions`](crate::ServeOptions).
        address: SocketAddr,
    },
    /// A file of presets is invalid.
    #[error("{place}: {reason}")]
    Presets {
        /// The file, and the preset in it if one is at fault.
        place: String,
        /// A description of the fault, in one line.
        reason: String,
    },
    /// The operating system refused a thread, a timer or a socket.
    #[error("the server cannot run: {}", beamgen_files::reason(.0))]
    Runtime(std::io::Error),
    /// A model was lost while the server ran, so nothing more can be solved.
    #[error(transparent)]
    Lost(#[from] beamgen::Error),
}
