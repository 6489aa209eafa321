//! TLS before a plain server, signed by the authority of `tls/authority.pem`, and a proxy through
//! which names lead to such servers.
//!
//! The certificate is for 127.0.0.1, localhost, huggingface.co, hf.co, mirror.test and other.test
//! until 2126. The authority's key was thrown away.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The certificate that a client has to trust.
pub(crate) const AUTHORITY: &str = include_str!("tls/authority.pem");

/// Opens a port that answers over TLS, one request per connection, and forwards to `endpoint`.
pub(crate) fn front(endpoint: &str) -> SocketAddr {
    let target = endpoint.trim_start_matches("http://").to_owned();
    let config = Arc::new(config());
    listen(move |stream| {
        let tls = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(tls, stream);
        let request = head(&mut tls)?;
        let mut server = TcpStream::connect(&target)?;
        server.write_all(&request)?;
        io::copy(&mut server, &mut tls)?;
        tls.conn.send_close_notify();
        tls.flush()
    })
}

/// Starts a proxy that resolves only the given names; returns its address.
pub(crate) fn proxy(names: Vec<(&'static str, SocketAddr)>) -> String {
    let address = listen(move |mut stream| {
        let request = String::from_utf8(head(&mut stream)?).map_err(io::Error::other)?;
        let asked = request.split_whitespace().nth(1).unwrap_or_default();
        let known = names
            .iter()
            .find(|(name, _)| asked == format!("{name}:443"));
        let Some((_, server)) = known else {
            return stream.write_all(b"HTTP/1.1 502 Unknown\r\n\r\n");
        };
        let mut server = TcpStream::connect(server)?;
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
        let (mut from, mut to) = (stream.try_clone()?, server.try_clone()?);
        let up = thread::spawn(move || {
            let copied = io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Write).and(copied)
        });
        io::copy(&mut server, &mut stream)?;
        stream.shutdown(Shutdown::Write)?;
        // A client that gives up is no failure of the proxy.
        up.join().map_or(Ok(()), |copied| copied.map(drop))
    });
    format!("http://{address}")
}

fn config() -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(include_bytes!("tls/server.pem"));
    let chain: Vec<_> = chain.map(|one| one.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair")
}

fn listen(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            // A client that refuses the certificate is no failure of the server.
            thread::spawn(move || serve(stream).ok());
        }
    });
    address
}

/// Reads a request up to the empty line. The requests in these tests have no body.
fn head(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        from.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head)
}
