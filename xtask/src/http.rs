//! The smallest HTTP client: one request on a connection of its own, or one whose sender hangs up.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Nodes that are stopped for a while answer later than this only if something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a str,
    /// The media type of the body; JSON if empty.
    pub(crate) media_type: &'a str,
    /// The header `Idempotency-Key`, if it is not empty.
    pub(crate) key: &'a str,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nobody took the connection, so that nobody has read the request.
    Never,
    /// The request was written at least in part, and there is no whole answer.
    Unanswered(String),
    /// The answer, with its status and body.
    Answered(u16, String),
}

impl Request<'_> {
    fn text(&self, address: &str) -> String {
        let Request { method, path, body, media_type, key } = self;
        let media_type = if media_type.is_empty() { "application/json" } else { media_type };
        let key =
            if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: {media_type}\r\n{key}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Sends it and reads the answer.
    pub(crate) fn send(&self, address: &str) -> Sent {
        let Ok(mut stream) = TcpStream::connect(address) else { return Sent::Never };
        let exchange = |stream: &mut TcpStream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(self.text(address).as_bytes())?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        match exchange(&mut stream).and_then(|text| read_answer(&text)) {
            Ok((status, body)) => Sent::Answered(status, body),
            Err(error) => Sent::Unanswered(error.to_string()),
        }
    }

    /// Sends it and closes the connection after a while, without reading an answer.
    pub(crate) fn send_and_hang_up(&self, address: &str, after: Duration) -> Sent {
        let Ok(mut stream) = TcpStream::connect(address) else { return Sent::Never };
        let why = match stream.write_all(self.text(address).as_bytes()) {
            Ok(()) => "the client hung up".to_owned(),
            Err(error) => error.to_string(),
        };
        std::thread::sleep(after);
        // A node that has gone meanwhile has closed it already.
        let _ = stream.shutdown(Shutdown::Both);
        Sent::Unanswered(why)
    }
}

/// An answer that ends before its length says so was cut off, and is none.
fn read_answer(text: &str) -> std::io::Result<(u16, String)> {
    let cut = || std::io::Error::other("the answer was cut off");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(cut)?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) if length != body.len() => Err(cut()),
        _ => Ok((status, body.to_owned())),
    }
}

/// Status and body of a request with a JSON body.
pub(crate) fn ask(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    match (Request { method, path, body, ..Request::default() }).send(address) {
        Sent::Never => Err(std::io::Error::other(format!("{address} takes no connection"))),
        Sent::Unanswered(why) => Err(std::io::Error::other(why)),
        Sent::Answered(status, body) => Ok((status, body)),
    }
}

#[cfg(test)]
mod tests {
    use super::read_answer;

    #[test]
    fn answers() {
        let answer = |text: &str| read_answer(text).ok();
        let whole = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(answer(whole), Some((201, "{}".to_owned())));
        assert_eq!(answer("HTTP/1.1 204 No Content\r\n\r\n"), Some((204, String::new())));
        for cut in ["", "HTTP/1.1 201 Created\r\nconte", &whole[..whole.len() - 1]] {
            assert_eq!(answer(cut), None, "{cut}");
        }
    }
}
